// Package graph finds out what patterns of names match, and which jobs wait for each other.
package graph

import "strings"

// IsGlob reports whether a name in needs, --only and the like is a pattern.
func IsGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// Match reports whether a job's name matches a pattern: * is any text, slashes
// included; ? one character; [ab] or [a-c] one of a set; [!a] any other.
func Match(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, mark = p, n
				p++
				continue
			}
			if width, ok := matchByte(pattern[p:], name[n]); ok {
				p += width
				n++
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, n = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte matches one character and returns the width of its pattern.
func matchByte(pattern string, c byte) (width int, ok bool) {
	if pattern[0] == '?' {
		return 1, true
	}
	end := -1
	if pattern[0] == '[' && len(pattern) > 2 {
		if end = strings.IndexByte(pattern[2:], ']'); end >= 0 {
			end += 2
		}
	}
	if end < 0 {
		return 1, pattern[0] == c
	}
	class := pattern[1:end]
	not := class[0] == '!' || class[0] == '^'
	if not {
		class = class[1:]
	}
	in := false
	for i := 0; i < len(class); i++ {
		if i+2 < len(class) && class[i+1] == '-' {
			in = in || class[i] <= c && c <= class[i+2]
			i += 2
			continue
		}
		in = in || class[i] == c
	}
	return end + 1, in != not
}
