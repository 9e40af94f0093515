package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []float64
		want float64
	}{
		{"none", nil, 0},
		{"one", []float64{7}, 7},
		{"two", []float64{4, 1}, 2.5},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{10, 1, 4, 2}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := append([]float64(nil), tt.in...)
			if got := median(tt.in); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			for i := range before {
				if tt.in[i] != before[i] {
					t.Fatal("the values were reordered: rounds are compared one by one")
				}
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, tt := range []struct {
		name string
		in   []time.Duration
		p    int
		want time.Duration
	}{
		{"none", nil, 99, 0},
		{"one", hundred[:1], 99, 100},
		{"99 of 100", hundred, 99, 99},
		{"all of 100", hundred, 100, 100},
		{"half", hundred, 50, 50},
		{"the least", hundred, 0, 1},
		{"99 of 200", append(hundred, hundred...), 99, 99},
		{"99 of 3", hundred[:3], 99, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := percentile(tt.in, tt.p); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestMeasure(t *testing.T) {
	sh := func(script string) command { return command{dir: t.TempDir(), argv: []string{"sh", "-c", script}} }
	c, err := sh(`test "$(pwd -P)" = "$(cd "$PWD" && pwd -P)"; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done`).measure()
	if err != nil || c.wall <= 0 || c.cpu <= 0 || c.rss < 1<<18 {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := sh("echo the reason >&2; exit 3").measure(); err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want what the command said", err)
	}
	allowed := sh("exit 3")
	allowed.ok = []int{3}
	if _, err := allowed.measure(); err != nil {
		t.Errorf("got %v, want none", err)
	}
	fed := sh(`read x && test "$x" = in && test "$E" = env`)
	fed.stdin, fed.env = "in\n", []string{"E=env"}
	if _, err := fed.measure(); err != nil {
		t.Errorf("got %v, want none", err)
	}
	if left, _ := os.ReadDir(fed.dir); len(left) > 0 {
		t.Errorf("%s was left behind", left[0].Name())
	}
	if _, err := (command{dir: t.TempDir(), argv: []string{"/none/such"}}).measure(); err == nil {
		t.Error("a program that is not there was measured")
	}
	if has("/none/such") || !has("sh") {
		t.Error("sh is installed, /none/such is not")
	}
}
