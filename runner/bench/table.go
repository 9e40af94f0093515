package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// A row is one comparison with its bar.
type row struct {
	figure string
	ours   string
	peer   string  // its name and its value
	ratio  float64 // NaN where the figure is no ratio
	bar    string
	met    verdict
}

type verdict int

const (
	met verdict = iota
	missed
	noBar      // shown, not judged
	unmeasured // its peer is missing
)

func (v verdict) String() string { return [...]string{"met", "MISSED", "-", "not measured"}[v] }

func judge(ok bool) verdict {
	if ok {
		return met
	}
	return missed
}

// atLeast adds a row whose ratio must not be below the bar.
func (b *bench) atLeast(figure, ours, peer string, ratio, bar float64) {
	b.rows = append(b.rows, row{figure, ours, peer, ratio, fmt.Sprintf("≥ %.3g", bar), judge(ratio >= bar)})
}

// atMost adds a row whose ratio must not be above the bar.
func (b *bench) atMost(figure, ours, peer string, ratio, bar float64) {
	b.rows = append(b.rows, row{figure, ours, peer, ratio, fmt.Sprintf("≤ %.3g", bar), judge(ratio <= bar)})
}

// under adds a row that is judged by itself.
func (b *bench) under(figure, ours, bar string, ok bool) {
	b.rows = append(b.rows, row{figure, ours, "", math.NaN(), bar, judge(ok)})
}

// shown adds a row without a bar.
func (b *bench) shown(figure, ours, peer string, ratio float64) {
	b.rows = append(b.rows, row{figure, ours, peer, ratio, "", noBar})
}

// missing adds a row that could not be measured for want of a program.
func (b *bench) missing(figure, program string) {
	b.rows = append(b.rows, row{figure, "", program + " is not installed", math.NaN(), "", unmeasured})
}

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// report prints the table; 1 when a bar is missed or could not be judged.
func (b *bench) report(to io.Writer) int {
	fmt.Fprintf(to, "\n%s, %d cores, load %s, %s; %.0f s in all\n\n",
		b.began.Format("2006-01-02 15:04"), cores(), load(), kernel(), time.Since(b.began).Seconds())
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tours\tpeer\tratio\tbar\t")
	code := 0
	for _, r := range b.rows {
		ratio := ""
		if !math.IsNaN(r.ratio) {
			ratio = fmt.Sprintf("%.2f", r.ratio)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.figure, r.ours, r.peer, ratio, r.bar, r.met)
		if r.met == missed || r.met == unmeasured {
			code = 1
		}
	}
	w.Flush()
	for _, n := range b.notes {
		fmt.Fprintln(to, "\n"+n)
	}
	return code
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return "Linux " + strings.TrimSpace(string(text))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
