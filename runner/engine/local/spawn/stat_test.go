package spawn

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStartTime compares the start time a child finds for itself with the kernel's, often
// enough for a clock tick to fall in between.
func TestStartTime(t *testing.T) {
	looked, read := 0, 0
	for range 300 {
		r, _ := request(t, ":")
		c, err := newChild(r)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.start(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID)) // a zombie by now, perhaps
		if err != nil {
			t.Fatal(err)
		}
		wait(t, p.PID)
		if c.began != 0 {
			looked++
		} else {
			read++
		}
		want, err := parseStat(b)
		if err != nil || p != want {
			t.Errorf("started %+v, the kernel says %+v, %v", p, want, err)
		}
		if begun, err := Begun(r.Begun); err != nil || begun != want {
			t.Errorf("the marker says %+v, %v, the kernel %+v", begun, err, want)
		}
	}
	if looked == 0 {
		t.Error("no start time came from the clock")
	}
	t.Logf("%d from the clock, %d from the kernel", looked, read)
}

func TestStatLine(t *testing.T) {
	for _, want := range []Process{{1, 1}, {10, 100}, {4194304, 1<<64 - 1}, {99, 9_999_999_999}} {
		var s statLine
		n := s.line(uint64(want.PID), want.Start)
		if got, err := parseStat(s[:n]); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", s[:n], got, err, want)
		}
	}
	for _, tt := range []struct {
		at   unix.Timespec
		want uint64
	}{{unix.Timespec{Sec: 12, Nsec: 9_999_999}, 1200}, {unix.Timespec{Sec: 12, Nsec: 10_000_000}, 1201}, {unix.Timespec{Sec: 0, Nsec: 999_999_999}, 99}} {
		if got := ticks(tt.at); got != tt.want {
			t.Errorf("ticks(%+v) = %d, want %d", tt.at, got, tt.want)
		}
	}
}
