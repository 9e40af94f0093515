package terminal

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Visible passes text on to a terminal, with everything that the terminal would obey
// made visible instead, as cat -v does: a log holds whatever a job has printed, and
// what a job prints may come from anywhere. Line breaks, tabs, carriage returns and
// colors pass.
type Visible struct {
	w       io.Writer
	colors  bool   // else they are left out
	rest    []byte // the beginning of a sequence or character whose end has not come yet
	painted bool   // a color is on
}

// NewVisible writes to w.
func NewVisible(w io.Writer, colors bool) *Visible { return &Visible{w: w, colors: colors} }

// maxColor bounds a sequence that sets colors.
const maxColor = 64

// Write implements io.Writer.
func (v *Visible) Write(p []byte) (int, error) {
	in := append(v.rest, p...)
	out, n := v.show(nil, in, false)
	v.rest = append([]byte(nil), in[n:]...)
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close shows what is left of an unfinished sequence, and takes the last color off.
func (v *Visible) Close() error {
	out, _ := v.show(nil, v.rest, true)
	v.rest = nil
	if v.painted {
		out = append(out, "\x1b[0m"...)
	}
	_, err := v.w.Write(out)
	return err
}

// show appends what is shown of in, and tells how much of it that was. The rest
// may be judged when more has come, unless this is the end.
func (v *Visible) show(out, in []byte, end bool) ([]byte, int) {
	n := 0
	for n < len(in) {
		switch c := in[n]; {
		case c >= ' ' && c < 0x7f, c == '\n', c == '\t', c == '\r':
			out = append(out, c)
			n++
		case c == 0x1b:
			size, whole := colorLen(in[n:])
			if !whole && !end {
				return out, n
			}
			if !whole || size == 0 {
				out = append(out, "^["...)
				n++
				break
			}
			if v.colors {
				out = append(out, in[n:n+size]...)
				v.painted = string(in[n:n+size]) != "\x1b[m" && string(in[n:n+size]) != "\x1b[0m"
			}
			n += size
		case c < ' ' || c == 0x7f:
			out = append(out, '^', c^0x40)
			n++
		case !utf8.FullRune(in[n:]) && !end:
			return out, n
		default:
			r, size := utf8.DecodeRune(in[n:])
			out = appendVisible(out, r, in[n:n+size])
			n += size
		}
	}
	return out, n
}

// colorLen is the length of the sequence that sets colors with which b begins, 0 if
// it begins with another. It is not whole if that cannot be told yet.
func colorLen(b []byte) (size int, whole bool) {
	if len(b) > 1 && b[1] != '[' {
		return 0, true
	}
	for i := 2; i < min(len(b), maxColor); i++ {
		switch c := b[i]; {
		case c == 'm':
			return i + 1, true
		case (c < '0' || c > '9') && c != ';' && c != ':':
			return 0, true
		}
	}
	return 0, len(b) >= maxColor
}

// appendVisible appends one character outside ASCII, text, which is r.
func appendVisible(out []byte, r rune, text []byte) []byte {
	switch {
	case r == utf8.RuneError && len(text) == 1 && text[0] < 0xa0: // C1 where the terminal is not in UTF-8
		return fmt.Appendf(out, "<%02X>", text[0])
	case obeyed(r):
		return fmt.Appendf(out, "<U+%04X>", r)
	}
	return append(out, text...)
}

// obeyed reports whether a terminal does something for r, a character outside ASCII,
// instead of showing it: C1 controls, and what changes the direction of text.
func obeyed(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
