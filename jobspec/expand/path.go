package expand

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var pathVariable = regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)

// Path expands ~ and $VAR. It refuses ~name, the home of another user, which would otherwise become
// the name of a folder. An unset variable is an error: rm -rf $DIR/x must not become rm -rf /x, nor
// may a log be written to /.
func Path(s string) (string, error) {
	if rest, ok := strings.CutPrefix(s, "~"); ok && (rest == "" || rest[0] == '/') {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%q: $HOME is not set", s)
		}
		s = home + rest
	} else if ok {
		user, _, _ := strings.Cut(s, "/")
		return "", fmt.Errorf("cannot expand %s, only ~", user)
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

// Absolute resolves the path s against dir.
func Absolute(dir, s string) (string, error) {
	s, err := Path(s)
	if err != nil {
		return "", err
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), nil
	}
	return filepath.Join(dir, s), nil
}
