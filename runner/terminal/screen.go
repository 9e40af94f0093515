package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Size is a terminal's size in columns and rows.
type Size struct{ Width, Height int }

// CurrentSize returns the terminal's present size. Each redraw calls it, so resizing needs no
// signal handler.
func CurrentSize() Size {
	w, h, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return Size{Width: 80, Height: 24}
	}
	return Size{Width: w, Height: h}
}

// A Screen redraws the rows above the cursor in place. It does not switch to the alternate screen,
// hide the cursor or change terminal modes, so nothing needs to be restored, however the process
// ends.
//
// Every update is a single write: move up over the old rows, erase them, write permanent lines,
// write the new rows. The cursor ends up below them.
type Screen struct {
	Out   io.Writer
	Live  bool // Out is a terminal that supports redrawing; otherwise drawings are appended
	Color bool
	// Continued receives a value if this process was suspended, so that other programs may have
	// written below the rows; or nil.
	Continued <-chan os.Signal

	widths []int // width of each row on the screen
}

// Draw replaces the previous rows. Rows that do not fit are cut or dropped.
func (s *Screen) Draw(rows []string) error {
	size := CurrentSize()
	if !s.Live {
		if len(rows) > 0 {
			rows = append(rows, "")
		}
		return s.update(rows, nil, size)
	}
	cut := rows[:min(len(rows), max(size.Height-1, 1))]
	for i, r := range cut {
		if Width(r) >= size.Width {
			cut[i] = Fit(Plain(r), size.Width-1)
		}
	}
	return s.update(nil, cut, size)
}

// update writes permanent lines and draws rows below them.
func (s *Screen) update(lines, rows []string, size Size) error {
	var b strings.Builder
	select {
	case <-s.Continued:
		s.widths = s.widths[:0]
	default:
	}
	b.WriteString(s.erase(size))
	for _, l := range lines {
		b.WriteString(l)
		if s.Live {
			b.WriteString("\x1b[K")
		}
		b.WriteString("\n")
	}
	for _, r := range rows {
		b.WriteString(r + "\n")
		s.widths = append(s.widths, Width(r))
	}
	text := b.String()
	if !s.Color {
		text = Plain(text)
	}
	if text == "" {
		return nil
	}
	_, err := io.WriteString(s.Out, text)
	return err
}

// erase returns the escape sequence that erases the rows. It allows for rows that have wrapped
// since they were drawn, because the terminal became narrower.
func (s *Screen) erase(size Size) string {
	if len(s.widths) == 0 {
		return ""
	}
	up := 0
	for _, w := range s.widths {
		up += 1 + max(w-1, 0)/max(size.Width, 1)
	}
	s.widths = s.widths[:0]
	// Erasing the whole screen from its top would make tmux move it to its history.
	return fmt.Sprintf("\r\x1b[%dA\x1b[K\n\x1b[J\x1b[A", min(up, max(size.Height-1, 1)))
}
