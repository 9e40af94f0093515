package host

import (
	"os"
	"testing"
)

func TestParseStatOfOddCommandNames(t *testing.T) {
	s, ok := StatOf(os.Getpid())
	if !ok || s.PID != os.Getpid() || s.Parent != os.Getppid() || s.Start == 0 || s.CodeEnd < 2 || s.EnvEnd == 0 || s.Over() {
		t.Errorf("this process: %+v, %v", s, ok)
	}
	const head = "7 (a) (b) S 3 7 2 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 "
	for line, want := range map[string]Stat{
		head + "1 0 99": {PID: 7, State: 'S', Parent: 3, Session: 2, Threads: 1, Start: 99, Flags: 4194560},
		head + "1 0":    {},
		"7 (a":          {}, "(a) S": {}, "x (a) S": {}, "": {},
	} {
		got, ok := ParseStat([]byte(line))
		if ok != (want.PID != 0) || ok && got != want {
			t.Errorf("%q: got %+v, %v, want %+v", line, got, ok, want)
		}
	}
}
