package terminal

import (
	"fmt"
	"io"
	"regexp"
	"sync"
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

var (
	// A color, or one character. Like what may become a color, it is compiled once it is used:
	// few commands show what jobs print.
	special    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-9;:]{0,61}m|[^ -~\n\t\r]") })
	unfinished = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\x1b(\\[[0-9;:]{0,61})?$") })
)

// Write implements io.Writer.
func (v *Visible) Write(p []byte) (int, error) {
	in := append(v.rest, p...)
	end := len(in)
	if at := unfinished().FindIndex(in); at != nil {
		end = at[0]
	}
	for i := end - 1; i >= max(0, end-utf8.UTFMax); i-- {
		if utf8.RuneStart(in[i]) {
			if !utf8.FullRune(in[i:end]) {
				end = i
			}
			break
		}
	}
	v.rest = append([]byte(nil), in[end:]...)
	if _, err := v.w.Write(special().ReplaceAllFunc(in[:end], v.show)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close shows the rest of an incomplete sequence, and resets the color.
func (v *Visible) Close() error {
	out := special().ReplaceAllFunc(v.rest, v.show)
	v.rest = nil
	if v.painted {
		out = append(out, "\x1b[0m"...)
	}
	_, err := v.w.Write(out)
	return err
}

// show returns what to show for a color or a character.
func (v *Visible) show(text []byte) []byte {
	r, size := utf8.DecodeRune(text)
	switch {
	case len(text) > size && !v.colors:
		return nil
	case len(text) > size:
		v.painted = string(text) != "\x1b[m" && string(text) != "\x1b[0m"
	case r < ' ' || r == 0x7f:
		return []byte{'^', text[0] ^ 0x40}
	case r == utf8.RuneError && size == 1 && text[0] < 0xa0: // C1, if the terminal is not in UTF-8 mode
		return fmt.Appendf(nil, "<%02X>", text[0])
	case obeyed(r):
		return fmt.Appendf(nil, "<U+%04X>", r)
	}
	return text
}

// obeyed reports whether a terminal acts on the non-ASCII character r instead of showing
// it: C1 controls, and whatever changes the direction of text.
func obeyed(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
