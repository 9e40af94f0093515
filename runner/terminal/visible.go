package terminal

import (
	"fmt"
	"io"
	"regexp"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Visible writes text to a terminal and makes control sequences visible, as cat -v does, because a
// log may contain untrusted output. Line breaks, tabs, carriage returns and colors pass through.
type Visible struct {
	w       io.Writer
	colors  bool   // whether colors pass through
	rest    []byte // start of an incomplete sequence or character
	painted bool   // a color is on
}

// NewVisible returns a Visible that writes to w.
func NewVisible(w io.Writer, colors bool) *Visible { return &Visible{w: w, colors: colors} }

var (
	// A color sequence or one special character. Both regexps are compiled on first use, since few
	// commands show job output.
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

// Close shows the rest of an incomplete sequence and resets the color.
func (v *Visible) Close() error {
	out := special().ReplaceAllFunc(v.rest, v.show)
	v.rest = nil
	if v.painted {
		out = append(out, "\x1b[0m"...)
	}
	_, err := v.w.Write(out)
	return err
}

// show returns the visible form of a color or character.
func (v *Visible) show(text []byte) []byte {
	r, size := utf8.DecodeRune(text)
	switch {
	case len(text) > size && !v.colors:
		return nil
	case len(text) > size:
		v.painted = string(text) != "\x1b[m" && string(text) != "\x1b[0m"
	case r < ' ' || r == 0x7f:
		return []byte{'^', text[0] ^ 0x40}
	case r == utf8.RuneError && size == 1 && text[0] < 0xa0: // C1 control, for a terminal that is not in UTF-8 mode
		return fmt.Appendf(nil, "<%02X>", text[0])
	case isControl(r):
		return fmt.Appendf(nil, "<U+%04X>", r)
	}
	return text
}

// isControl reports whether a terminal acts on the non-ASCII character r instead of showing it: C1
// controls and bidirectional controls.
func isControl(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
