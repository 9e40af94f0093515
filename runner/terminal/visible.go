package terminal

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Visible forwards text to a terminal, and makes control sequences visible as cat -v
// does: a log contains whatever a job printed, which may come from anywhere. Line breaks,
// tabs, carriage returns and colors pass through.
type Visible struct {
	w       io.Writer
	colors  bool   // whether colors pass through
	rest    []byte // the beginning of an incomplete sequence or character
	painted bool   // a color is on
}

// NewVisible returns a Visible that writes to w.
func NewVisible(w io.Writer, colors bool) *Visible { return &Visible{w: w, colors: colors} }

// maxColor bounds the length of a color sequence.
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

// Close shows the rest of an incomplete sequence, and resets the color.
func (v *Visible) Close() error {
	out, _ := v.show(nil, v.rest, true)
	v.rest = nil
	if v.painted {
		out = append(out, "\x1b[0m"...)
	}
	_, err := v.w.Write(out)
	return err
}

// show appends what to show for in, and returns how much of it that covers. The rest
// needs more input, unless this is the end.
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

// colorLen returns the length of the color sequence that b begins with, 0 if it begins
// with another one. whole is false if more input is needed to tell.
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

// appendVisible appends the non-ASCII character r, whose bytes are text.
func appendVisible(out []byte, r rune, text []byte) []byte {
	switch {
	case r == utf8.RuneError && len(text) == 1 && text[0] < 0xa0: // C1, if the terminal is not in UTF-8 mode
		return fmt.Appendf(out, "<%02X>", text[0])
	case obeyed(r):
		return fmt.Appendf(out, "<U+%04X>", r)
	}
	return append(out, text...)
}

// obeyed reports whether a terminal acts on the non-ASCII character r instead of showing
// it: C1 controls, and whatever changes the direction of text.
func obeyed(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
