package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// columns measures text as terminals show it. Characters of ambiguous width take one
// column, as everywhere except in CJK locales.
var columns = &runewidth.Condition{}

// Width returns the number of columns that s takes. s has no colors.
func Width(s string) int { return columns.StringWidth(s) }

// Fit cuts s to w columns, with "…" for what is cut off.
func Fit(s string, w int) string {
	switch {
	case w <= 0:
		return ""
	case Width(s) <= w:
		return s
	}
	return columns.Truncate(s, w, "…")
}

// Wrap breaks s between words into lines of at most w columns, indented from the second
// on. A longer word stays whole: paths must stay copyable.
func Wrap(s string, w, indent int) []string {
	var lines []string
	begin := s[:len(s)-len(strings.TrimLeft(s, " "))]
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = begin + word
		case Width(line)+1+Width(word) <= w:
			line += " " + word
		default:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		}
	}
	return append(lines, line)
}

// Pad returns s in exactly w columns, left-aligned.
func Pad(s string, w int) string {
	s = Fit(s, w)
	return s + strings.Repeat(" ", max(0, w-Width(s)))
}

// FitMiddle cuts s to w columns in its middle. Both ends of a name matter: those of a
// matrix differ only at their ends.
func FitMiddle(s string, w int) string {
	if Width(s) <= w || w < 8 {
		return Fit(s, w)
	}
	head := columns.Truncate(s, (w-1)/2, "")
	room := w - 1 - Width(head)
	tail := s
	for Width(tail) > room {
		_, n := utf8.DecodeRuneInString(tail)
		tail = tail[n:]
	}
	return head + "…" + tail
}

// Clean makes a log line or a name safe to show. It removes escape sequences, control
// characters and whatever changes the direction of text, and keeps only the last state
// of a progress bar.
func Clean(line string) string {
	line = strings.TrimRight(line, "\r\n \t")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	return CleanText(line)
}

// CleanText is Clean for text that was never on a terminal: it keeps what precedes a \r.
func CleanText(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if s[0] == 0x1b {
			s = s[escapeLen(s):]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteByte('?')
		case r == '\t' || r == '\n' || r == '\r':
			b.WriteByte(' ')
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d':
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// CleanLines is CleanText for several lines.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = CleanText(lines[i])
	}
	return strings.Join(lines, "\n")
}

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// escapeLen returns the length of the escape sequence that s begins with: CSI up to its
// final byte, OSC and other strings up to BEL or ST, else two bytes.
func escapeLen(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']', 'P', '^', '_', 'X':
		for i := 2; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
		return len(s)
	}
	return 2
}

// Duration formats d for people: "8s", "3m05s", "2h07m", "4d03h".
func Duration(d time.Duration) string {
	s := int64(max(d, 0).Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s%86400/3600)
}

// A Color is an ANSI color.
type Color int

// The colors in use; every terminal has them.
const (
	None   Color = 0
	Red    Color = 31
	Green  Color = 32
	Yellow Color = 33
	Cyan   Color = 36
	Dim    Color = 2
	Bold   Color = 1
)

// Paint colors s.
func Paint(c Color, s string) string {
	if c == None || s == "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", int(c), s)
}

// paint is Paint if color is set.
func paint(color bool, c Color, s string) string {
	if !color {
		return s
	}
	return Paint(c, s)
}
