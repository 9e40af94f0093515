package terminal

import (
	"fmt"
	"strings"
)

// screen is the part of a terminal that the live view redraws: the rows above the cursor.
// It does not switch screens, hide the cursor or change terminal modes, so there is
// nothing to restore, however the process ends.
//
// Every update is one string for one write: move up over the old rows, erase, write the
// lines that stay, write the new rows. That leaves the cursor below them.
type screen struct {
	widths []int // columns of each row drawn now
}

// update returns what to write so that lines scroll away above and rows are drawn below.
func (s *screen) update(lines, rows []string, size Size) string {
	var b strings.Builder
	b.WriteString(s.erase(size))
	for _, l := range lines {
		b.WriteString(l)
		b.WriteString("\x1b[K\n")
	}
	for _, r := range rows {
		b.WriteString(r)
		b.WriteString("\n")
		s.widths = append(s.widths, Width(stripped(r)))
	}
	return b.String()
}

// erase returns what to write to erase the view. A terminal that has become narrower has
// wrapped the old rows.
func (s *screen) erase(size Size) string {
	if len(s.widths) == 0 {
		return ""
	}
	up := 0
	for _, w := range s.widths {
		up += 1 + max(w-1, 0)/max(size.Width, 1)
	}
	s.widths = s.widths[:0]
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", min(up, max(size.Height-1, 1)))
}

// stripped returns s without colors.
func stripped(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if s[0] == 0x1b {
			s = s[escapeLen(s):]
			continue
		}
		i := strings.IndexByte(s, 0x1b)
		if i < 0 {
			i = len(s)
		}
		b.WriteString(s[:i])
		s = s[i:]
	}
	return b.String()
}
