package expand

import (
	"fmt"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// A Runtime holds the values known only during an attempt.
type Runtime struct {
	UniID   string
	Attempt int    // 1, 2, …
	GPUs    []int  // host indices
	Port    int    // {port}
	Started string // {started}: when the run began, 20261121-140500
	Log     string // absolute path of the log, unless the job file names one

	// Copy translates a path in the code to its path in the job's copy of the code. It is nil if there is
	// no copy.
	Copy func(path string) string

	Environ []string // gpurun's own environment, which jobs inherit

	// Later returns a placeholder for gpu, gpu_list, ngpus or port. It is set only if their values are
	// known only on the node that runs the job.
	Later func(name string) string
}

// Values are the values of variables while one job is rendered.
type Values struct {
	Params  []*Param // as spelled in the file
	Name    string
	WorkDir string
	Config  string
	Log     string
	Runtime *Runtime // if nil, run-time variables and {work_dir} are not replaced, as for the key
	Planned bool     // the work dir is known although there is no attempt yet
}

// isLater reports whether a variable has no value before an attempt.
func (v *Values) isLater(k VarKind) bool {
	switch k {
	case VarLiteral, VarParam, VarName:
		return false
	case VarWorkDir:
		return v.Runtime == nil && !v.Planned
	case VarConfig:
		return v.Runtime == nil && v.Config == ""
	}
	return v.Runtime == nil
}

// Later returns the variables of a text that have no value before an attempt.
func (v *Values) Later(t *Text) (spelt []string) {
	if t == nil {
		return nil
	}
	for _, g := range t.Segs {
		if v.isLater(g.Kind) {
			spelt = append(spelt, g.Lit)
		}
	}
	return spelt
}

// Render returns the text with its variables replaced; "" if the text is not given.
func (t *Text) Render(v *Values) string {
	switch {
	case t == nil:
		return ""
	case len(t.Segs) == 1:
		return t.Segs[0].render(v)
	}
	buf := make([]byte, 0, 256)
	for _, g := range t.Segs {
		buf = append(buf, g.render(v)...)
	}
	return string(buf)
}

func (g *Segment) render(v *Values) string {
	var value string
	switch {
	case g.Kind == VarParam:
		value = v.Param(g.Param).Text
	case g.Kind == VarLiteral || v.isLater(g.Kind):
		return g.Lit
	default:
		value = v.known(g.Kind)
	}
	switch g.Format {
	case "":
		return value
	case "q":
		return shellescape.Quote(value)
	}
	if formatted, err := FormatNumber(g.Format, value); err == nil {
		return formatted
	}
	return value
}

// TagOf returns the YAML type of a value: the variable's type if the value is a single variable, text
// if it mixes variables and text, and own, its type in the job file, if it has no variables.
func (v *Values) TagOf(t *Text, own string) string {
	g := t.Sole()
	switch {
	case t.Constant():
		return own
	case g == nil:
		return "!!str"
	case g.Kind == VarParam:
		return v.Param(g.Param).Tag
	case g.Kind.Numeric() && v.Runtime != nil:
		return "!!int"
	}
	return "!!str"
}

// Param returns a parameter with its value rendered, or with null if the job does not have it.
func (v *Values) Param(name string) Param {
	if p := find(v.Params, name); p != nil {
		return v.resolve(p)
	}
	return Param{Name: name, Tag: "!!null"}
}

// onNode are the variables that are known only on the node that runs the job.
var onNode = map[VarKind]string{VarGPU: "gpu", VarGPUList: "gpu_list", varNGPUs: "ngpus", varPort: "port"}

// known returns the value of a variable that is not a parameter.
func (v *Values) known(k VarKind) string {
	if name, is := onNode[k]; is && v.Runtime.Later != nil {
		return v.Runtime.Later(name)
	}
	switch k {
	case VarName:
		return v.Name
	case VarWorkDir:
		return v.WorkDir
	case VarUniID:
		return v.Runtime.UniID
	case varAttempt:
		return strconv.Itoa(v.Runtime.Attempt)
	case VarGPUList:
		var ids []string
		for _, i := range v.Runtime.GPUs {
			ids = append(ids, strconv.Itoa(i))
		}
		return strings.Join(ids, ",")
	case VarGPU:
		if len(v.Runtime.GPUs) > 0 {
			return strconv.Itoa(v.Runtime.GPUs[0])
		}
		return ""
	case varNGPUs:
		return strconv.Itoa(len(v.Runtime.GPUs))
	case varPort:
		return strconv.Itoa(v.Runtime.Port)
	case VarConfig:
		return v.Config
	case varStarted:
		return v.Runtime.Started
	}
	return v.Log
}

// FormatNumber formats a number with the format of a variable, such as 03d, .2f or e.
func FormatNumber(format, value string) (string, error) {
	if verb := format[len(format)-1:]; strings.Contains("dxX", verb) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			f, ferr := strconv.ParseFloat(value, 64)
			if n = int64(f); ferr != nil || float64(n) != f {
				return "", fmt.Errorf("%q is not a whole number", value)
			}
		}
		width, _, _ := strings.Cut(strings.TrimSuffix(format, verb), ".") // a whole number has no decimals
		return fmt.Sprintf("%"+width+verb, n), nil
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return "", fmt.Errorf("%q is not a number", value)
	}
	return fmt.Sprintf("%"+format, f), nil
}

// Own returns the parameters whose values do not refer to other variables.
func (v *Values) Own() []Param {
	list := make([]Param, 0, len(v.Params))
	for _, p := range v.Params {
		if p.made == nil {
			list = append(list, *p)
		}
	}
	return list
}
