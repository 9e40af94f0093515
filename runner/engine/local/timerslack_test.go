package local

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gpurun/runner/engine/local/timerslack"
)

// Jobs have the timers that gpurun was started with, not the late ones of gpurun's own.
func TestTimersOfJobs(t *testing.T) {
	b, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil {
		t.Skip(err)
	}
	want := strings.TrimSpace(string(b))
	if n := timerslack.Original(); n > 0 {
		if want == fmt.Sprint(n) {
			t.Errorf("the slack is still %d ns", n)
		}
		want = fmt.Sprint(n)
	}
	s := newScene(t, "cat /proc/self/timerslack_ns; read x <fifo")
	s.start()
	s.goOn()
	s.ended()
	if got := strings.TrimSpace(s.log()); got != want {
		t.Errorf("a job's timers may be late by %s ns, want %s", got, want)
	}
}
