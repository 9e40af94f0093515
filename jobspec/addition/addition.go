// Package addition appends a job to the text of a job file, and leaves every byte that is
// there alone.
package addition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// ErrNoPlace means that a text is not one to whose end a job can be added: jobs is not its
// last key, or is not a list with a line for each "-".
var ErrNoPlace = errors.New("jobs is not the last list of the file")

// A Known is a job that is there already.
type Known struct{ Line int }

func (k *Known) Error() string { return fmt.Sprintf("it is there already, in line %d", k.Line) }

// A Job is what is to be added: what a job file says of it.
type Job struct {
	Name      string   `yaml:"name,omitempty"`
	GPUs      Plain    `yaml:"gpus,omitempty"`
	GPUMemory Plain    `yaml:"gpu_memory,omitempty"`
	Timeout   Plain    `yaml:"timeout,omitempty"`
	Retry     Plain    `yaml:"retry,omitempty"`
	Needs     []string `yaml:"needs,omitempty,flow"`
	Priority  *int     `yaml:"priority,omitempty"`
	Run       Line     `yaml:"run"`
}

type (
	// Plain is a value that needs no quotes, even if it looks like a number.
	Plain string
	// Line is a text that stays on one line.
	Line string
)

// MarshalYAML is for package yaml.
func (p Plain) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: string(p)}, nil
}

// MarshalYAML is for package yaml.
func (l Line) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(l)}
	if strings.ContainsAny(string(l), "\n\r\t\u0085\u2028\u2029") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n, nil
}

// Item returns a job as an element of a list.
func Item(j Job) string {
	text, err := yaml.Marshal(j)
	if err != nil {
		return "- run: " + fmt.Sprintf("%q", j.Run)
	}
	return "- " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n  ")
}

// Append returns a job file's text with one more job at its end, and the job's line. The
// error is ErrNoPlace, a *Known, or what the YAML parser says.
func Append(data []byte, j Job) (text []byte, line int, err error) {
	jobs, err := last(data)
	if err != nil {
		return nil, 0, err
	}
	var one []any
	_ = yaml.Unmarshal([]byte(Item(j)), &one)
	for _, item := range jobs.Content {
		var there any
		if item.Decode(&there) == nil && reflect.DeepEqual(one, []any{there}) {
			return nil, 0, &Known{Line: item.Line}
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
	for l := range strings.SplitSeq(Item(j), "\n") {
		text = append(text, strings.Repeat(" ", jobs.Column-1)+l+end...)
	}
	return text, line, nil
}

// last returns the list of jobs, if it is the last block sequence of the text.
func last(data []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(data))
	if err := in.Decode(&doc); err != nil {
		return nil, err
	}
	if err := in.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, ErrNoPlace
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode || doc.Content[0].Style&yaml.FlowStyle != 0 {
		return nil, ErrNoPlace
	}
	root := doc.Content[0].Content
	if len(root) < 2 || root[len(root)-2].Value != "jobs" {
		return nil, ErrNoPlace
	}
	jobs := root[len(root)-1]
	if jobs.Kind != yaml.SequenceNode || jobs.Style&yaml.FlowStyle != 0 || len(jobs.Content) == 0 || jobs.Anchor != "" {
		return nil, ErrNoPlace
	}
	return jobs, nil
}
