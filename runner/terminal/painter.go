package terminal

import (
	"io"
	"strings"
)

// A Painter shows rows again and again in one place, for commands that watch.
type Painter struct {
	out  io.Writer
	live bool
	size func() Size
	scr  screen
}

// NewPainter makes a painter on out. Where out is no terminal, or nothing is to
// be redrawn, each drawing follows the last.
func NewPainter(out io.Writer, live bool, size func() Size) *Painter {
	return &Painter{out: out, live: live, size: size}
}

// Draw shows rows instead of those before. Rows that do not fit are cut, or left out.
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

// append writes rows and an empty line behind them, with no word to a terminal.
func (p *Painter) append(rows []string) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := io.WriteString(p.out, strings.Join(rows, "\n")+"\n\n")
	return err
}
