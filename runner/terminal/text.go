package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// columns measures the width of text on a terminal. Characters of ambiguous width take one column,
// as in all locales except CJK.
var columns = &runewidth.Condition{}

// Width returns the number of columns that s takes, ignoring colors.
func Width(s string) int { return columns.StringWidth(Plain(s)) }

// Fit cuts s to w columns and marks the cut with "…".
func Fit(s string, w int) string {
	if w <= 0 {
		return ""
	}
	return columns.Truncate(s, w, "…")
}

// Pad returns s left-aligned in exactly w columns.
func Pad(s string, w int) string { return columns.FillRight(Fit(s, w), w) }

// FitMiddle shortens s to w columns by cutting its middle, because names in a matrix often differ
// only at their ends.
func FitMiddle(s string, w int) string {
	if Width(s) <= w || w < 8 {
		return Fit(s, w)
	}
	head := columns.Truncate(s, (w-1)/2, "")
	return head + columns.TruncatePrefix(s, w-Width(head), "…")
}

// Wrap breaks s between words into lines of at most w columns, with indent from the second line on.
// It never breaks words, so that paths can be copied.
func Wrap(s string, w, indent int) []string {
	var lines []string
	line := s[:len(s)-len(strings.TrimLeft(s, " "))]
	for i, word := range strings.Fields(s) {
		switch {
		case i == 0:
			line += word
		case Width(line)+1+Width(word) <= w:
			line += " " + word
		default:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		}
	}
	return append(lines, line)
}

// Clean makes a log line or a name safe to show. It removes escape sequences, control characters
// and bidirectional controls, and keeps only the last state of a progress bar.
func Clean(line string) string {
	line = strings.TrimRight(line, "\r\n \t")
	return CleanText(line[strings.LastIndexByte(line, '\r')+1:])
}

// escape matches an escape sequence: CSI up to its final byte, OSC and other strings up to BEL or
// ST, or else two characters.
var escape = regexp.MustCompile(`(?s)\x1b(\[[^@-~]*[@-~]?|[\]P^_X].*?(\x07|\x1b\\|$)|.?)`)

// CleanText is like Clean, but for text that is not terminal output: it keeps the text before a \r.
func CleanText(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s
	}
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = escape.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d':
			return -1
		}
		return r
	}, s)
}

// Duration formats d as "8s", "3m05s", "2h07m" or "4d03h".
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

// Seconds formats a duration in seconds like Duration.
func Seconds(s float64) string { return Duration(time.Duration(s * float64(time.Second))) }

// A Color is an ANSI color.
type Color int

// Colors that every terminal supports.
const (
	None   Color = 0
	Red    Color = 31
	Green  Color = 32
	Yellow Color = 33
	Cyan   Color = 36
	Bold   Color = 1
	Dim    Color = 2
)

// Paint colors s.
func Paint(c Color, s string) string {
	if c == None || s == "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", int(c), s)
}

var colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Plain returns s without its colors.
func Plain(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	return colors.ReplaceAllString(s, "")
}

// painted wraps text and colors its beginning on the first line.
func painted(c Color, beginning, text string, width int) []string {
	rows := Wrap(text, width, 4)
	switch {
	case strings.HasPrefix(rows[0], beginning):
		rows[0] = Paint(c, beginning) + rows[0][len(beginning):]
	case strings.HasPrefix(beginning, rows[0]):
		rows[0] = Paint(c, rows[0])
	}
	return rows
}

// clock formats the timestamp of a line outside the live view. It includes the date because logs
// are read later.
func clock(t time.Time) string { return t.Local().Format(time.DateTime) }
