package block

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// A Config is the config.yaml of a block file.
type Config struct {
	Settings []settings.Given
	WorkDir  string // absolute
	DirKey   string // the work dir as written: absolute, or relative to the job file
	DirFrom  string // where the work dir was set

	Job  *yaml.Node     // a mapping of the job keys that apply to all blocks; nil if there are none
	File *source.Source // the file that contains the keys in Job
}

// settingOf maps the keys of a block file's config to native settings, or to "" if there is no
// equivalent.
var settingOf = map[string]string{
	"check_time": "poll", "maximize_resource_utilization": "share", "memory_save_mode": "pick",
	"compete_gpus": "gpu_ids", "use_all_gpus": "", "gpu_left": "reserve",
	"min_gpu": "min_gpus", "max_gpu": "max_gpus", "retry_config": "", "work_dir": "",
}

// ReadConfig reads path or, if that is "", the config.yaml next to the job file, if any. A file
// without block-file settings is assumed to belong to another program, and is ignored with a
// warning. If path is set, native settings and job keys count as block-file settings, too. keys are
// the words that may begin a line, for hints. jobKeys are all keys of a job.
func ReadConfig(job *source.Source, path string, keys, jobKeys []string, out *source.Report) Config {
	c := Config{WorkDir: filepath.Dir(job.Dir), DirKey: "..", DirFrom: "default"}
	named := path != ""
	path = cmp.Or(path, filepath.Join(filepath.Dir(job.Path), "config.yaml"))
	out.Note(path)
	if _, err := os.Stat(path); !named && os.IsNotExist(err) {
		return c
	}
	r := &reader{config: &c, folder: job.Dir, at: map[string]*yaml.Node{}, native: settings.Names(), jobKeys: jobKeys}
	data, err := source.ReadRegular(path)
	if err != nil {
		out.Add(source.Problem{File: path}.Because(err))
		return c
	}
	if len(bytes.TrimSpace(data)) > 0 {
		if r.Source = source.Given(path, data, out); r.Source == nil {
			return c
		}
		root := r.Parse(keys)
		if root == nil || root.Kind == yaml.MappingNode && !r.Resolve(root) {
			return c
		}
		if r.concerns(root, named) {
			r.read(root)
			return c
		}
	}
	out.Warn(source.Problem{File: path, Text: "is ignored: none of its keys is a job-file setting", Hint: "see gpurun help block-files"})
	return c
}

type reader struct {
	*source.Source
	config *Config
	folder string                // of the job file, absolute
	at     map[string]*yaml.Node // key node of each setting so far, by native name
	native []string

	jobKeys []string // job keys of the native dialect
}

// concerns reports whether the file is meant for gpurun.
func (r *reader) concerns(root *yaml.Node, named bool) bool {
	for k := range source.Each(root) {
		key := k.Value
		if _, ok := settingOf[key]; ok || named && (slices.Contains(r.native, key) || slices.Contains(blockJobKeys, source.OwnKey(key))) {
			return true
		}
	}
	return false
}

func (r *reader) read(root *yaml.Node) {
	all := source.Child(root, "use_all_gpus")
	r.Pairs(root, "the file", func(k, v *yaml.Node) {
		if source.IsNull(v) {
			return
		}
		switch k.Value {
		case "check_time":
			r.set(k, "poll", r.seconds(k, v))
		case "maximize_resource_utilization":
			r.set(k, "share", r.yesNo(k, v, "true", "false"))
		case "memory_save_mode":
			r.set(k, "pick", r.yesNo(k, v, "best-fit", "most-free"))
		case "use_all_gpus":
			r.yesNo(k, v, "", "")
		case "compete_gpus":
			if ids := r.ids(v); !isTrue(all) {
				r.set(k, "gpu_ids", ids)
			}
		case "gpu_left", "min_gpu", "max_gpu":
			if n := r.count(k, v); n != "" {
				r.set(k, settingOf[k.Value], n)
			}
		case "retry_config":
			r.retry(k, v)
		case "work_dir":
			r.workDir(k, v)
		default:
			r.other(k, v)
		}
	})
}

// first reports whether a setting or job key appears for the first time. One that appears under two
// names is ambiguous, so first refuses the second.
func (r *reader) first(k *yaml.Node, name string) bool {
	if first := r.at[name]; first != nil {
		r.Problem(k.Line, k.Column, "keep only one", "%q and %q (line %d) are the same setting", k.Value, first.Value, first.Line)
		return false
	}
	r.at[name] = k
	return true
}

// set records a setting.
func (r *reader) set(k *yaml.Node, name, value string) {
	if r.first(k, name) && (value != "" || name == "notify") { // notify may list no targets
		r.config.Settings = append(r.config.Settings, settings.Given{Name: name, Text: value, File: r.Path, Line: k.Line})
	}
}

// other accepts native settings and job keys, and refuses misspelled keys. It ignores all other
// keys, because such files also contain the scripts' own settings.
func (r *reader) other(k, v *yaml.Node) {
	if slices.Contains(r.native, k.Value) {
		if text, ok := settings.Text(r.Source, k.Value, v); ok {
			r.set(k, k.Value, text)
		}
		return
	}
	if r.jobKey(k, v) {
		return
	}
	known := slices.AppendSeq(slices.Clone(r.native), maps.Keys(settingOf))
	slices.Sort(known)
	most := func(word string) int {
		if len(word) > 4 {
			return 2
		}
		return 0
	}
	if word := source.Closest(k.Value, known, most); word != "" {
		r.Problem(k.Line, k.Column, fmt.Sprintf("did you mean %q?", word), "unknown key %q", k.Value)
	}
}

func (r *reader) seconds(k, v *yaml.Node) string {
	text, _, ok := r.Scalar(v, k.Value)
	if !ok {
		return ""
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0 && f <= 86400*365) {
		r.Problem(v.Line, v.Column, "try 5", "%s: invalid number of seconds %q", k.Value, source.Clip(text))
		return ""
	}
	return source.FormatDuration(time.Duration(f * float64(time.Second)))
}

func isTrue(v *yaml.Node) bool {
	return v != nil && (strings.EqualFold(v.Value, "true") || strings.EqualFold(v.Value, "yes") || strings.EqualFold(v.Value, "on"))
}

// yesNo reads a boolean, and returns yes if it is true and no if it is false. Like other programs
// that read these files, it also accepts on, off, yes and no.
func (r *reader) yesNo(k, v *yaml.Node, yes, no string) string {
	text, _, ok := r.Scalar(v, k.Value)
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		return yes
	case "false", "no", "off":
		return no
	}
	if ok {
		r.Problem(v.Line, v.Column, "write true or false", "%s: must be true or false, not %q", k.Value, source.Clip(text))
	}
	return ""
}

func (r *reader) ids(v *yaml.Node) string {
	var ids []string
	for _, item := range r.Items(v, "compete_gpus") {
		text, _, ok := r.Scalar(item, "compete_gpus")
		if !ok {
			continue
		}
		if _, err := source.ParseGPUIDs(text); err != nil {
			r.Problem(item.Line, item.Column, "try [0, 1]", "compete_gpus: invalid GPU %q", source.Clip(text))
			continue
		}
		ids = append(ids, text)
	}
	return strings.Join(ids, ",")
}

func (r *reader) count(k, v *yaml.Node) string {
	text, _, ok := r.Scalar(v, k.Value)
	if !ok {
		return ""
	}
	if _, err := source.ParseCount(text, 0); err != nil {
		r.Problem(v.Line, v.Column, "use a whole number", "%s: %v", k.Value, err)
		return ""
	}
	return text
}

// retry reads retry_config as the job key retry.
func (r *reader) retry(k, v *yaml.Node) {
	after, delay := "0", "0"
	r.Pairs(v, "retry_config", func(k, v *yaml.Node) {
		switch k.Value {
		case "max_retry_before_backoff":
			after = cmp.Or(r.count(k, v), after)
		case "backoff_duration":
			delay = cmp.Or(r.seconds(k, v), delay)
		default:
			words := []string{"max_retry_before_backoff", "backoff_duration"}
			r.Problem(k.Line, k.Column, source.DidYouMean(k.Value, words, "valid keys: max_retry_before_backoff, backoff_duration"), "unknown key %q in retry_config", k.Value)
		}
	})
	retry := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: v.Line, Column: v.Column}
	for _, word := range []string{"max", "forever", "backoff_after", after, "backoff", delay} {
		retry.Content = append(retry.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word, Line: v.Line, Column: v.Column})
	}
	r.setJobKey(k, "retry", retry)
}

func (r *reader) workDir(k, v *yaml.Node) {
	text, _, ok := r.Scalar(v, k.Value)
	if !ok || text == "" {
		return
	}
	c := r.config
	c.DirFrom = settings.Given{File: r.Path, Line: k.Line}.Source()
	if filepath.IsAbs(text) {
		c.WorkDir = filepath.Clean(text)
		c.DirKey = c.WorkDir
		return
	}
	c.WorkDir = filepath.Join(r.folder, text)
	if rel, err := filepath.Rel(r.folder, c.WorkDir); err == nil {
		c.DirKey = rel
	}
}
