package main

import (
	"bytes"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

func quiet() *bench { return newBench(io.Discard) }

// The table as a whole, but for the line that says when and where.
func TestReport(t *testing.T) {
	b := quiet()
	b.atLeast("1 rate", "80 jobs/s", "xargs 100 jobs/s", 0.8, 0.7)
	b.atMost("2 time", "1.0 ms", "ninja 2.0 ms", 0.5, 1)
	b.under("3 gap", "3.1 ms", "< 5 ms", true)
	b.shown("3 apart", "7.0 ms", "", nan)
	b.note("Two\nlines: %d.", 7)
	var out bytes.Buffer
	if code := b.report(&out); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	_, table, _ := strings.Cut(strings.TrimPrefix(out.String(), "\n"), "\n\n")
	want := `figure   ours       peer              ratio  bar     
1 rate   80 jobs/s  xargs 100 jobs/s  0.80   ≥ 0.7   met
2 time   1.0 ms     ninja 2.0 ms      0.50   ≤ 1     met
3 gap    3.1 ms                              < 5 ms  met
3 apart  7.0 ms                                      -

Two
lines: 7.
`
	if table != want {
		t.Errorf("got\n%s\nwant\n%s", table, want)
	}
	head := regexp.MustCompile(`^\n\d{4}-\d\d-\d\d \d\d:\d\d, \d+ cores, load \S+, Linux \S+; \d+ s in all\n`)
	if !head.MatchString(out.String()) {
		t.Errorf("the first line is %q", out.String()[:min(80, out.Len())])
	}
}

func TestExitStatus(t *testing.T) {
	tests := []struct {
		name string
		row  func(b *bench)
		say  string
		code int
	}{
		{"just met", func(b *bench) { b.atLeast("f", "", "", 0.7, 0.7) }, "met", 0},
		{"just met from above", func(b *bench) { b.atMost("f", "", "", 12, 12) }, "met", 0},
		{"too slow", func(b *bench) { b.atLeast("f", "", "", 0.69999, 0.7) }, "MISSED", 1},
		{"too much", func(b *bench) { b.atMost("f", "", "", 12.001, 12) }, "MISSED", 1},
		{"no ratio at least", func(b *bench) { b.atLeast("f", "", "", math.NaN(), 0.7) }, "MISSED", 1},
		{"no ratio at most", func(b *bench) { b.atMost("f", "", "", math.NaN(), 12) }, "MISSED", 1},
		{"over its limit", func(b *bench) { b.under("f", "", "", false) }, "MISSED", 1},
		{"a peer is missing", func(b *bench) { b.missing("f", "ninja") }, "not measured", 1},
		{"only shown", func(b *bench) { b.shown("f", "", "", 0.01) }, "-", 0},
		{"nothing", func(*bench) {}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := quiet()
			tt.row(b)
			var out bytes.Buffer
			if code := b.report(&out); code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			if !strings.HasSuffix(out.String(), tt.say+"\n") {
				t.Errorf("got %q, want it to end with %q", out.String(), tt.say)
			}
			if strings.Contains(tt.name, "missing") && !strings.Contains(out.String(), "ninja is not installed") {
				t.Errorf("got %q", out.String())
			}
		})
	}
}

func TestUnits(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{millis(3140 * time.Microsecond), "3.1 ms"},
		{millis(0), "0.0 ms"},
		{seconds(2994 * time.Millisecond), "2.99 s"},
		{mebibytes(91<<20 + 1<<19), "92 MiB"},
		{mebibytes(0), "0 MiB"},
		{micros(2345), "2.3 µs"},
		{micros(math.NaN()), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
