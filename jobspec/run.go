package jobspec

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
)

// onlyShell matches an item of run that affects only its own shell, and so has no effect.
var onlyShell = regexp.MustCompile(`^\s*(cd|export|source|\.|conda\s+activate|module\s+load|set)(\s+[^;&|]*)?$`)

func (p *proto) warnOnlyShell(t *expand.Text, hint string) {
	if onlyShell.MatchString(t.Raw) {
		p.src.Warning(t.Line, t.Col, hint, "%q has no effect on the next command: each command runs in its own shell", source.Clip(t.Raw))
	}
}

func (p *proto) run() {
	n := p.get("run")
	if n == nil {
		p.src.Problem(p.Line, p.Col, "add run: python train.py", "this job has no run")
		return
	}
	p.Commands = p.textList("run", expand.AtStart)
	lint.CommandSlips(p.src, n, p.get("env"), slices.Concat(p.scope.Params, p.scope.Partial))
	if n.Kind == yaml.SequenceNode && len(n.Content) > 1 {
		for _, c := range p.Commands {
			p.warnOnlyShell(c, "write one script with run: | instead of a list")
		}
	}
	p.readArgs("args", p.get("args"), "")
	lint.ArgsPlace(p.src, p.Job, p.style == experiment)
}

// readArgs reads all arguments except skip.
func (p *proto) readArgs(what string, n *yaml.Node, skip string) {
	if n == nil {
		return
	}
	p.src.Pairs(n, what, func(k, v *yaml.Node) {
		if k.Value == skip && skip != "" {
			return
		}
		if k.Value == "" || strings.ContainsAny(k.Value, " \t\n'\"$`\\;&|<>()") {
			p.src.Problem(k.Line, k.Column, "", "invalid argument name %q", k.Value)
			return
		}
		if v.Kind == yaml.SequenceNode {
			p.src.Problem(v.Line, v.Column, "write this argument in the run command instead", "%s: %q must be a single value, not a list", what, k.Value)
			return
		}
		s, tag, ok := p.src.Scalar(v, what+": "+k.Value)
		if !ok {
			return
		}
		if slices.ContainsFunc(p.Args, func(a expand.Arg) bool { return a.Key == k.Value }) {
			p.src.Problem(k.Line, k.Column, "keep only one", "%s: duplicate argument %q", what, k.Value)
			return
		}
		if tag == "!!null" { // null passes no argument
			if name, rest, ok := strings.Cut(k.Value, ":"); ok {
				p.src.Problem(k.Line, k.Column, "add a space after the colon: "+name+": "+rest, "%s: %q has no value", what, k.Value)
			}
			return
		}
		lint.LiteralSlip(p.src, v, what+": "+k.Value)
		lint.SwitchSlip(p.src, k, v, what)
		t, _ := p.compile(s, v.Line, v.Column, what, expand.AtStart)
		p.Args = append(p.Args, expand.Arg{Key: k.Value, Value: t, Tag: tag})
	})
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsEnvName reports whether env may contain a variable with this name.
func IsEnvName(name string) bool { return envName.MatchString(name) }

// ownEnv are the variables that gpurun sets for every job.
var ownEnv = []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPURUN_JOB", "GPURUN_UNI_ID", "GPURUN_ATTEMPT", "GPURUN_RESULT"}

func (p *proto) readEnv() {
	n := p.get("env")
	if n == nil {
		return
	}
	p.src.Pairs(n, "env", func(k, v *yaml.Node) {
		switch {
		case !IsEnvName(k.Value):
			p.src.Problem(k.Line, k.Column, "use letters, digits and _", "invalid environment variable name %q", k.Value)
			return
		case slices.Contains(ownEnv, k.Value):
			hint := "remove it"
			if strings.HasSuffix(k.Value, "VISIBLE_DEVICES") {
				hint = "gpurun chooses the GPUs; for specific GPUs, set gpu_ids"
			}
			p.src.Problem(k.Line, k.Column, hint, "gpurun sets %s", k.Value)
			return
		}
		if source.IsNull(v) {
			return // null removes a default
		}
		s, _, ok := p.src.Scalar(v, "env: "+k.Value)
		if !ok {
			return
		}
		t, _ := p.compile(s, v.Line, v.Column, "env", expand.AtStart)
		p.checkInherited(k.Value, v, t)
		p.Env = append(p.Env, expand.Env{Name: k.Value, Value: t})
	})
}

// checkInherited checks the variables that a value of env takes from gpurun's environment. It also
// warns about ~, which is not expanded.
func (p *proto) checkInherited(name string, v *yaml.Node, t *expand.Text) {
	if strings.HasPrefix(v.Value, "~/") || v.Value == "~" && v.Style != 0 {
		p.src.Warning(v.Line, v.Column, "write $HOME", "env: %s: %q is passed as is: ~ is not expanded here", name, source.Clip(v.Value))
	}
	for _, from := range t.Inherits() {
		l, c := p.src.Find(v.Line, v.Column, "$")
		_, set := os.LookupEnv(from)
		switch {
		case slices.Contains(ownEnv, from) || strings.HasPrefix(from, "GPURUN_PARAM_"):
			p.src.Problem(l, c, "read it in run instead: in env, $NAME comes from gpurun's environment", "env: %s: gpurun sets $%s for each job", name, from)
		case !set && from != name:
			p.src.Warning(l, c, "for a dollar sign, write $$", "env: %s: $%s is not set in gpurun's environment, so it expands to nothing", name, from)
		}
	}
}

// shells are programs that take a command after an option such as -c. Without the option, they
// treat their argument as a script's name. Users may write only the shell's name, as in GitHub
// Actions.
var shells = map[string][]string{
	"bash": {"bash", "-e", "-o", "pipefail", "-c"}, "sh": {"sh", "-e", "-c"}, "dash": {"dash", "-e", "-c"},
	"zsh": {"zsh", "-e", "-o", "pipefail", "-c"}, "ksh": {"ksh", "-e", "-o", "pipefail", "-c"}, "fish": {"fish", "-c"},
}

// readShell reads the shell's argv, given as a list or as one text. The name of a known shell
// stands for its usual argv.
func (p *proto) readShell() {
	n := p.get("shell")
	if n == nil {
		return
	}
	p.Shell = p.src.Texts(n, "shell")
	if n.Kind == yaml.ScalarNode {
		p.Shell = strings.Fields(strings.Join(p.Shell, ""))
	}
	switch {
	case len(p.Shell) == 0 && n.Kind != yaml.ScalarNode: // already reported
	case len(p.Shell) == 0 || p.Shell[0] == "":
		p.src.Problem(n.Line, n.Column, "try [bash, -c]", "shell is empty")
	case len(p.Shell) == 1 && n.Kind == yaml.ScalarNode && shells[p.Shell[0]] != nil:
		p.Shell = shells[p.Shell[0]]
	case takesFile(p.Shell):
		p.src.Problem(n.Line, n.Column, "write ["+strings.Join(append(slices.Clone(p.Shell), "-c"), ", ")+"]",
			"shell: %s would treat each command as a script name", strings.Join(p.Shell, " "))
	}
}

// readSetup prepends setup to each command.
func (p *proto) readSetup() {
	p.Setup = p.optional("setup", expand.AtStart)
	if p.Setup == nil {
		return
	}
	if !p.Sh() {
		p.src.Problem(p.Setup.Line, p.Setup.Col, "write setup: null, or use bash or sh", "setup needs a shell like sh, not %s", strings.Join(p.Shell, " "))
	}
	for i, c := range p.Commands {
		p.Commands[i] = c.Below(p.Setup)
	}
}

// takesFile reports whether a shell, or Python, would treat its next argument as a script's name,
// because none of its options ends in c.
func takesFile(argv []string) bool {
	switch base := filepath.Base(argv[0]); {
	case strings.HasPrefix(base, "python"):
		return len(argv) == 1
	case shells[base] == nil:
		return false
	}
	return !slices.ContainsFunc(argv[1:], func(a string) bool {
		return a == "--command" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c")
	})
}
