package host

import (
	"strings"
	"unicode/utf8"
)

// Kernel strings are bytes, but JSON strings are text. So a path or variable that is not UTF-8 is
// encoded as a NUL, which no kernel string contains, followed by one character per byte.
const asBytes = "\x00"

// Legible returns a string that survives JSON. Exact reverses it.
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

// Exact reverses Legible.
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
