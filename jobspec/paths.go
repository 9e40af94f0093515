package jobspec

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

var pathVariable = regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)

// expandPath expands ~ and $VAR. It refuses another user's ~name, which would become a
// folder with that name. An unset variable is an error: rm -rf $DIR/x must not become
// rm -rf /x, nor a log land in /.
func expandPath(s string) (string, error) {
	if rest, ok := strings.CutPrefix(s, "~"); ok && (rest == "" || rest[0] == '/') {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%q: $HOME is not set", s)
		}
		s = home + rest
	} else if ok {
		user, _, _ := strings.Cut(s, "/")
		return "", fmt.Errorf("~ is supported, but not %s", user)
	}
	if !strings.Contains(s, "$") {
		return s, nil
	}
	unset := ""
	s = pathVariable.ReplaceAllStringFunc(s, func(v string) string {
		name := strings.Trim(v, "${}")
		value, ok := os.LookupEnv(name)
		if !ok && unset == "" {
			unset = v
		}
		return value
	})
	if unset != "" {
		return "", fmt.Errorf("%s is not set in the environment", unset)
	}
	return s, nil
}

// absolute resolves the path s against dir.
func absolute(dir, s string) (string, error) {
	s, err := expandPath(s)
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), nil
	}
	return filepath.Join(dir, s), nil
}

// checkPaths reports unset variables in all paths of a job.
func (p *proto) checkPaths() {
	var list []*expand.Text
	list = append(list, p.workDir, p.log, p.stdout, p.stderr)
	for i := range p.outputs {
		list = append(list, &p.outputs[i])
	}
	for i := range p.inputs {
		list = append(list, &p.inputs[i])
	}
	if p.config != nil {
		list = append(list, &p.config.base, p.config.path)
	}
	for _, t := range slices.DeleteFunc(list, func(t *expand.Text) bool { return t == nil }) {
		if _, err := expandPath(t.Raw); err != nil {
			p.src.Problem(t.Line, t.Col, "set it, or write the full path", "%q: %s", source.Clip(t.Raw), err)
		}
	}
}
