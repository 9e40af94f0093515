package jobspec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// ErrNoPlace means that no job can be appended to a file, because the file does not end with a jobs
// list in block style.
var ErrNoPlace = errors.New("jobs is not the last list in the file")

// An AlreadyThere error reports that the file already has the job.
type AlreadyThere struct{ Line int }

func (k *AlreadyThere) Error() string {
	return fmt.Sprintf("the same job is already on line %d", k.Line)
}

// An Addition is a job to append to a job file.
type Addition struct {
	Name      string     `yaml:"name,omitempty"`
	GPUs      PlainValue `yaml:"gpus,omitempty"`
	GPUMemory PlainValue `yaml:"gpu_memory,omitempty"`
	Timeout   PlainValue `yaml:"timeout,omitempty"`
	Retry     PlainValue `yaml:"retry,omitempty"`
	Needs     []string   `yaml:"needs,omitempty,flow"`
	Priority  *int       `yaml:"priority,omitempty"`
	Run       OneLine    `yaml:"run"`
}

type (
	// A PlainValue is printed without quotes, even if it looks like a number.
	PlainValue string
	// A OneLine is text that is printed on one line.
	OneLine string
)

// MarshalYAML implements yaml.Marshaler.
func (p PlainValue) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: string(p)}, nil
}

// MarshalYAML implements yaml.Marshaler.
func (l OneLine) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(l)}
	if strings.ContainsAny(string(l), "\n\r\t\u0085\u2028\u2029") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n, nil
}

// ListItem returns a job as an item of a YAML list, without a final newline.
func ListItem(j Addition) string {
	text, err := yaml.Marshal(j)
	if err != nil {
		return "- run: " + fmt.Sprintf("%q", j.Run)
	}
	return "- " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n  ")
}

// Append appends a job to a job file's text, and returns the new text and the job's line in it. The
// rest of the text is unchanged. The error is ErrNoPlace, an *AlreadyThere, or one from the YAML
// parser.
func Append(data []byte, j Addition) (text []byte, line int, err error) {
	jobs, err := lastJob(data)
	if err != nil {
		return nil, 0, err
	}
	var one []any
	_ = yaml.Unmarshal([]byte(ListItem(j)), &one)
	for _, item := range jobs.Content {
		var there any
		if item.Decode(&there) == nil && reflect.DeepEqual(one, []any{there}) {
			return nil, 0, &AlreadyThere{Line: item.Line}
		}
	}
	end := "\n"
	if bytes.Contains(data, []byte("\r\n")) {
		end = "\r\n"
	}
	text = bytes.Clone(data)
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, end...)
	}
	line = bytes.Count(text, []byte("\n")) + 1
	for l := range strings.SplitSeq(ListItem(j), "\n") {
		text = append(text, strings.Repeat(" ", jobs.Column-1)+l+end...)
	}
	return text, line, nil
}

// lastJob returns the list of jobs if it is the last value in the file, is in block style and is
// not empty.
func lastJob(data []byte) (*yaml.Node, error) {
	root, err := source.ParseYAML(data)
	_, several := errors.AsType[*source.SecondDocument](err)
	switch {
	case several || errors.Is(err, io.EOF):
		return nil, ErrNoPlace
	case err != nil:
		return nil, err
	}
	pairs := root.Content
	if root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 || len(pairs) < 2 || pairs[len(pairs)-2].Value != "jobs" {
		return nil, ErrNoPlace
	}
	jobs := pairs[len(pairs)-1]
	if jobs.Kind != yaml.SequenceNode || jobs.Style&yaml.FlowStyle != 0 || len(jobs.Content) == 0 || jobs.Anchor != "" {
		return nil, ErrNoPlace
	}
	return jobs, nil
}
