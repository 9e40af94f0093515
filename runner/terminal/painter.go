package terminal

import (
	"io"
	"strings"
)

// A Painter redraws rows in place, for commands that watch.
type Painter struct {
	out  io.Writer
	live bool
	size func() Size
	scr  screen
}

// NewPainter returns a painter on out. If live is false, each drawing follows the last
// instead of replacing it.
func NewPainter(out io.Writer, live bool, size func() Size) *Painter {
	return &Painter{out: out, live: live, size: size}
}

// Draw replaces the rows shown before. Rows that do not fit are cut or left out.
func (p *Painter) Draw(rows []string) error {
	if !p.live {
		return p.append(rows)
	}
	size := p.size()
	if n := max(size.Height-1, 1); len(rows) > n {
		rows = rows[:n]
	}
	cut := make([]string, len(rows))
	for i, r := range rows {
		cut[i] = r
		if Width(stripped(r)) >= size.Width {
			cut[i] = Fit(stripped(r), size.Width-1)
		}
	}
	_, err := io.WriteString(p.out, p.scr.update(nil, cut, size))
	return err
}

// append writes rows and an empty line, without control sequences.
func (p *Painter) append(rows []string) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := io.WriteString(p.out, strings.Join(rows, "\n")+"\n\n")
	return err
}
