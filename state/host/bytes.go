package host

import (
	"strings"
	"unicode/utf8"
)

// The kernel's strings are bytes, and JSON's are text: a path or a variable that is not
// UTF-8 travels as its bytes, one character for each, behind a NUL, which no string of
// the kernel contains.
const asBytes = "\x00"

// Legible returns a string that survives JSON; Exact undoes it.
func Legible(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, asBytes) {
		return s
	}
	text := []rune(asBytes)
	for _, b := range []byte(s) {
		text = append(text, rune(b))
	}
	return string(text)
}

// Exact undoes Legible.
func Exact(s string) string {
	text, ok := strings.CutPrefix(s, asBytes)
	if !ok {
		return s
	}
	var b []byte
	for _, r := range text {
		b = append(b, byte(r))
	}
	return string(b)
}
