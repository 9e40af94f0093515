package jobspec

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/jobspec/source"
	"gpurun/jobspec/units"

	"github.com/agnivade/levenshtein"
	"gopkg.in/yaml.v3"
)

// A blockConfig is what a config.yaml says about the block file beside it.
type blockConfig struct {
	Settings    []blockSetting // in the file's order
	WorkDir     string         // absolute
	WorkDirLine int            // where the config file names it; 0 if it does not
	Retry       *Retry         // nil if retry_config is not given
	Ignored     bool           // the file exists but has none of these keys

	job  *yaml.Node     // a mapping of the job keys that apply to all blocks
	file *source.Source // where they are

	warnings []Problem
}

// A blockSetting is a native setting, its value spelled as in a job file.
type blockSetting struct {
	Name, Value string
	Line        int // in the config file
}

// blockKeys maps the keys of the block dialect's config file to the native settings
// they stand for; "" if there is none.
var blockKeys = map[string]string{
	"check_time": "poll", "maximize_resource_utilization": "share", "memory_save_mode": "pick",
	"compete_gpus": "gpu_ids", "use_all_gpus": "", "gpu_left": "reserve",
	"min_gpu": "min_gpus", "max_gpu": "max_gpus", "retry_config": "", "work_dir": "",
}

// readBlockConfig reads configPath or, if that is "", the config.yaml beside the job
// file, if any. A file with none of our keys belongs to another program and is
// ignored; one named explicitly counts as soon as it has native settings.
func readBlockConfig(jobFile, configPath string) (blockConfig, []Problem) {
	folder, err := filepath.Abs(filepath.Dir(jobFile))
	if err != nil {
		return blockConfig{}, []Problem{{File: jobFile, Text: "cannot find its folder: " + err.Error()}}
	}
	c := blockConfig{WorkDir: filepath.Dir(folder)}
	named := configPath != ""
	if !named {
		configPath = filepath.Join(filepath.Dir(jobFile), "config.yaml")
		if _, err := os.Stat(configPath); os.IsNotExist(err) {
			return c, nil
		}
	}
	out := &source.Report{}
	r := &blockConfigReader{config: &c, folder: folder, at: map[string]*yaml.Node{}, native: settingNames(settingDefs())}
	if data, err := source.ReadRegular(configPath); err == nil && len(bytes.TrimSpace(data)) == 0 {
		c.Ignored = true
		return c, nil
	}
	if r.Source = source.Read(configPath, out); r.Source == nil {
		return c, out.Problems
	}
	root := r.Parse(ourKeys())
	if root == nil || len(out.Problems) > 0 || root.Kind == yaml.MappingNode && !r.Resolve(root) {
		return c, out.Problems
	}
	if c.Ignored = !r.concerns(root, named); !c.Ignored {
		r.read(root)
	}
	c.warnings = out.Warnings
	return c, out.Problems
}

type blockConfigReader struct {
	*source.Source
	config *blockConfig
	folder string                // of the job file, absolute
	at     map[string]*yaml.Node // key node of each setting so far, by native name
	native []string
}

// concerns reports whether the file is meant for gpurun.
func (r *blockConfigReader) concerns(root *yaml.Node, named bool) bool {
	if root.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i].Value
		if _, ok := blockKeys[key]; ok || named && (slices.Contains(r.native, key) || slices.Contains(blockJobKeys, jobWord(key))) {
			return true
		}
	}
	return false
}

func (r *blockConfigReader) read(root *yaml.Node) {
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
			if n, ok := r.count(k, v, 0); ok {
				r.set(k, blockKeys[k.Value], strconv.Itoa(n))
			}
		case "retry_config":
			r.retry(v)
		case "work_dir":
			r.workDir(k, v)
		default:
			r.other(k, v)
		}
	})
}

// set records a setting. The same setting under both its names is a contradiction
// that gpurun must not guess about.
func (r *blockConfigReader) set(k *yaml.Node, name, value string) {
	if first := r.at[name]; first != nil {
		r.Problem(k.Line, k.Column, "keep only one", "%q and %q (line %d) are the same setting", k.Value, first.Value, first.Line)
		return
	}
	r.at[name] = k
	if value != "" {
		r.config.Settings = append(r.config.Settings, blockSetting{name, value, k.Line})
	}
}

// other accepts native settings and refuses near misses of known keys. Everything
// else is left alone: such files also hold the settings of the scripts.
func (r *blockConfigReader) other(k, v *yaml.Node) {
	if slices.Contains(r.native, k.Value) {
		if text, ok := settingText(r.Source, k.Value, v); ok {
			r.set(k, k.Value, text)
		}
		return
	}
	if r.jobKey(k, v) {
		return
	}
	known := slices.Clone(r.native)
	for key := range blockKeys {
		known = append(known, key)
	}
	slices.Sort(known)
	for _, word := range known {
		if len(word) > 4 && levenshtein.ComputeDistance(k.Value, word) <= 2 {
			r.Problem(k.Line, k.Column, fmt.Sprintf("did you mean %q?", word), "unknown key %q", k.Value)
			return
		}
	}
}

func (r *blockConfigReader) seconds(k, v *yaml.Node) string {
	text, _, ok := r.Scalar(v, k.Value)
	if !ok {
		return ""
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0 && f <= 86400*365) {
		r.Problem(v.Line, v.Column, "try 5", "%s: invalid number of seconds %q", k.Value, source.Clip(text))
		return ""
	}
	return time.Duration(f * float64(time.Second)).String()
}

func isTrue(v *yaml.Node) bool {
	return v != nil && (strings.EqualFold(v.Value, "true") || strings.EqualFold(v.Value, "yes") || strings.EqualFold(v.Value, "on"))
}

// yesNo returns yes or no. Programs that read these files also accept on and yes.
func (r *blockConfigReader) yesNo(k, v *yaml.Node, yes, no string) string {
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

func (r *blockConfigReader) ids(v *yaml.Node) string {
	var ids []string
	for _, item := range r.Items(v, "compete_gpus") {
		text, _, ok := r.Scalar(item, "compete_gpus")
		if !ok {
			continue
		}
		if _, err := units.ParseGPUIDs(text); err != nil {
			r.Problem(item.Line, item.Column, "try [0, 1]", "compete_gpus: invalid GPU %q", source.Clip(text))
			continue
		}
		ids = append(ids, text)
	}
	return strings.Join(ids, ",")
}

func (r *blockConfigReader) count(k, v *yaml.Node, least int) (int, bool) {
	text, _, ok := r.Scalar(v, k.Value)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > 1<<20 {
		r.Problem(v.Line, v.Column, fmt.Sprintf("use a whole number of at least %d", least), "%s: invalid number %q", k.Value, source.Clip(text))
		return 0, false
	}
	return n, true
}

func (r *blockConfigReader) retry(v *yaml.Node) {
	retry := &Retry{Max: -1}
	r.Pairs(v, "retry_config", func(k, v *yaml.Node) {
		switch k.Value {
		case "max_retry_before_backoff":
			retry.BackoffAfter, _ = r.count(k, v, 0)
		case "backoff_duration":
			if d, err := time.ParseDuration(r.seconds(k, v)); err == nil {
				retry.Backoff = d
			}
		default:
			words := []string{"max_retry_before_backoff", "backoff_duration"}
			r.Problem(k.Line, k.Column, source.DidYouMean(k.Value, words, "valid keys: max_retry_before_backoff, backoff_duration"), "unknown key %q in retry_config", k.Value)
		}
	})
	if source.Child(r.config.job, "retry") != nil {
		r.Problem(v.Line, v.Column, "keep only one", "retry and retry_config are the same setting")
	}
	r.config.Retry = retry
}

func (r *blockConfigReader) workDir(k, v *yaml.Node) {
	text, _, ok := r.Scalar(v, k.Value)
	if ok && text != "" {
		r.config.WorkDirLine = k.Line
	}
	switch {
	case !ok || text == "":
	case filepath.IsAbs(text):
		r.config.WorkDir = filepath.Clean(text)
	default:
		r.config.WorkDir = filepath.Join(r.folder, text)
	}
}
