package jobspec

import (
	"regexp"
	"strings"
)

// IsGlob reports whether a name in needs, --only and similar lists is a pattern.
func IsGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

var (
	globToken = regexp.MustCompile(`(?s)\[.[^\]]*\]|.`)
	inSet     = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`)
	nothing   = regexp.MustCompile(`[^\s\S]`)
)

// Glob compiles a pattern for names: * matches any text including slashes; ? one character; [ab] or
// [a-c] one character in the set; [!a] one character outside the set.
func Glob(pattern string) *regexp.Regexp {
	expr := globToken.ReplaceAllStringFunc(pattern, func(s string) string {
		switch {
		case s == "*":
			return ".*"
		case s == "?":
			return "."
		case s[0] != '[' || len(s) == 1:
			return regexp.QuoteMeta(s)
		}
		set, not := s[1:len(s)-1], ""
		if set[0] == '!' || set[0] == '^' {
			set, not = set[1:], "^"
		}
		if set == "" {
			return "." // [!]
		}
		return "[" + not + inSet.Replace(set) + "]"
	})
	re, err := regexp.Compile("^(?s:" + expr + ")$")
	if err != nil {
		return nothing // an inverted range
	}
	return re
}
