package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// emulator implements the escape sequences that the view uses, and keeps the contents of the screen.
type emulator struct {
	mu    sync.Mutex
	rows  []string
	row   int
	wrote int

	begins bool // the cursor is at the beginning of the row
}

func (e *emulator) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrote++
	for s := string(p); s != ""; {
		switch {
		case strings.HasPrefix(s, "\x1b["):
			n := len(escape.FindString(s))
			e.csi(s[2:n])
			s = s[n:]
		case s[0] == '\n':
			e.row++
			e.begins, s = true, s[1:]
		case s[0] == '\r':
			e.begins, s = true, s[1:]
		default:
			e.begins = false
			i := strings.IndexAny(s, "\x1b\n\r")
			if i < 0 {
				i = len(s)
			}
			e.at(e.row)
			e.rows[e.row] += s[:i]
			s = s[i:]
		}
	}
	return len(p), nil
}

func (e *emulator) at(row int) {
	for len(e.rows) <= row {
		e.rows = append(e.rows, "")
	}
}

func (e *emulator) csi(seq string) {
	n := 1
	switch {
	case seq == "K" && e.begins:
		e.at(e.row)
		e.rows[e.row] = ""
	case strings.HasSuffix(seq, "A"):
		fmt.Sscanf(seq, "%dA", &n)
		e.row = max(e.row-n, 0)
	case seq == "J":
		e.at(e.row)
		e.rows = e.rows[:e.row]
	}
}

func (e *emulator) screen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	rows := slices.Clone(e.rows)
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	return rows
}

func plainly(f func()) { go f() }

func exit(code int) *int { return &code }

func facts(job string, code int) (start, end state.Fact) {
	start = state.Fact{Kind: state.KindStart, Time: noon, Job: job, UniID: job, Attempt: 1, GPUs: []int{0, 3}, Memory: 12 * gpu.GiB, Log: "/w/logs/" + job + ".log"}
	end = state.Fact{Kind: state.KindEnd, Time: noon.Add(90 * time.Second), Job: job, UniID: job, Attempt: 1, State: state.Succeeded, Seconds: 90, PeakMemory: 10 * gpu.GiB, ExitCode: exit(code)}
	if code != 0 {
		end.State, end.ErrorType = state.Failed, state.ErrExit
	}
	return start, end
}

func TestCloseErasesLiveView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &emulator{}
		v := New(Config{Screen: Screen{Out: e, Live: true}, Go: plainly})
		start, end := facts("a", 0)
		v.Fact(0, start)
		f := busyFrame(3, shortName)
		v.Snapshot(f.Snap)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := e.screen(); len(got) != 4 || !strings.Contains(got[0], "12 of 48 done") {
			t.Errorf("while a job runs, the screen shows %q", got)
		}
		v.Fact(0, end)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := e.screen(); len(got) != 5 || !strings.HasPrefix(got[0], end.Time.Local().Format(time.TimeOnly)+" succeeded   a: ") {
			t.Errorf("after a job has ended, the screen shows %q", got)
		}
		v.Close()
		if got := e.screen(); len(got) != 1 {
			t.Errorf("after Close, the screen shows %q", got)
		}
	})
}

func TestViewBatchesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &emulator{}
		v := New(Config{Screen: Screen{Out: e, Live: true}, Go: plainly})
		for i := range 5000 {
			start, end := facts(fmt.Sprint("j", i), 0)
			v.Fact(i, start)
			v.Fact(i, end)
		}
		v.Close()
		if got := len(e.screen()); got != 5000 {
			t.Errorf("got %d lines, want 5000", got)
		}
		if e.wrote > 5 {
			t.Errorf("got %d writes for one burst, want at most 5", e.wrote)
		}
	})
}

func TestEachClusterRefusalIsPrintedOnce(t *testing.T) {
	for _, live := range []bool{false, true} {
		e := &emulator{}
		v := New(Config{Screen: Screen{Out: e, Live: live}, Go: plainly})
		for i := range 40 {
			start, end := facts(fmt.Sprint("j", i), -1)
			start.GPUs, start.Engine = nil, "slurm"
			end.ExitCode, end.Cause, end.Reason = nil, state.CauseStartFailed, "slurm: no such license"
			if i%20 == 19 {
				end.Reason = "slurm: no such account"
			}
			v.Fact(i, start)
			v.Fact(i, end)
		}
		v.Close()
		v.Wait()
		if got := strings.Count(strings.Join(e.screen(), "\n"), ": slurm: no such "); got != 2 {
			t.Errorf("live %v: got %d lines, want 2", live, got)
		}
	}
}

// stuck is a writer that blocks forever, and closes its channel first.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) { close(s); select {} }

func TestStalledTerminalDoesNotBlockRun(t *testing.T) {
	blocked, done := make(stuck), make(chan struct{})
	v := New(Config{Screen: Screen{Out: blocked}, Go: plainly})
	go func() {
		defer close(done)
		for i := range 2 * maxLines {
			start, _ := facts(fmt.Sprint("j", i), 0)
			if v.Fact(i, start); i == 0 {
				<-blocked // the writer takes no further lines
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("Fact blocks while the terminal is stalled")
	}
	if v.lost == 0 || len(v.lines) > maxLines {
		t.Errorf("%d lines queued, %d dropped; want at most %d queued and some dropped", len(v.lines), v.lost, maxLines)
	}
	v.Close()
}

// slow is an output on which each write takes seconds.
type slow struct{ text []byte }

func (l *slow) Write(p []byte) (int, error) {
	time.Sleep(3 * time.Second)
	l.text = append(l.text, p...)
	return len(p), nil
}

// Text that the caller prints after Wait must not overtake the run's lines.
func TestWaitLosesNothingOnSlowOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &slow{}
		v := New(Config{Screen: Screen{Out: out}, Go: plainly})
		for _, job := range []string{"a", "b"} {
			start, end := facts(job, 0)
			v.Fact(0, start)
			synctest.Wait()
			v.Fact(0, end)
		}
		v.Close()
		v.Wait()
		if text := string(out.text); strings.Count(text, "\n") != 4 || !strings.Contains(text, "succeeded   b") {
			t.Errorf("got these lines, want 4:\n%s", text)
		}
	})
}

type broken struct{}

func (broken) Write(p []byte) (int, error) { return 0, errors.New("broken pipe") }

func TestViewSurvivesBrokenOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Config{Screen: Screen{Out: broken{}}, Go: plainly})
		for i := range 100 {
			start, end := facts(fmt.Sprint("j", i), 1)
			v.Fact(i, start)
			v.Fact(i, end)
			v.Snapshot(&schema.Status{Live: &schema.Live{}})
			synctest.Wait()
		}
		v.Close()
		if len(v.lines) != 0 {
			t.Errorf("%d lines are still queued for a broken output", len(v.lines))
		}
	})
}

func TestViewWithoutTerminalPrintsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		adoptedStart, adoptedEnd := facts("adopted", 4)
		adoptedStart.UniID, adoptedEnd.UniID = "before", "before"
		v := New(Config{Screen: Screen{Out: &out}, Go: plainly, Open: []state.Fact{adoptedStart}})
		start, end := facts("train\x1b[2J-1", 3)
		v.Fact(0, start)
		v.Fact(0, end)
		v.Fact(0, adoptedEnd)
		v.Fact(1, state.Fact{Kind: state.KindEnd, Time: noon, Job: "b", State: state.Succeeded, By: "done"})
		time.Sleep(61 * time.Second)
		f := busyFrame(2, shortName)
		v.Snapshot(f.Snap)
		v.Snapshot(f.Snap)
		v.Close()
		stamp := func(at time.Time) string { return clock(at) }
		want := []string{
			stamp(noon) + " start       train-1, GPU 0,3, 12 GiB each",
			stamp(noon.Add(90*time.Second)) + " failed      train-1: exit 3, 1m30s, GPU 0,3, peak 10 GiB, /w/logs/train",
			stamp(noon.Add(90*time.Second)) + " failed      adopted: exit 4, 1m30s, GPU 0,3, peak 10 GiB, /w/logs/",
			stamp(noon) + " succeeded   b",
			stamp(time.Now()) + " so far      running: 12 of 48 done, 1 failed, 2 running, 33 waiting · done ",
		}
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
				t.Fatalf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

func TestMinuteLineShowsNextRetry(t *testing.T) {
	s := schema.Status{Run: &schema.Run{Alive: true}, Counts: map[state.Phase]int{state.Waiting: 2, state.Succeeded: 1}}
	for _, tt := range []struct {
		waiting []*schema.Job
		want    string
	}{
		{nil, "so far      does not answer: 1 of 3 done, 2 waiting"},
		{
			[]*schema.Job{{Name: "a\x1b", State: state.Waiting, Attempts: 3, Wait: &schema.Wait{Until: schema.Time(noon.Add(9 * time.Minute))}}},
			"so far      does not answer: 1 of 3 done, 2 waiting; a: attempt 4 in 9m00s; 1 more waiting to retry",
		},
	} {
		s.Jobs = tt.waiting
		s.Sum()
		if got := MinuteLine(&s, noon); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestScreenErasesRowsWrappedByNarrowerTerminal(t *testing.T) {
	s := Screen{Out: io.Discard, Live: true}
	s.update(nil, []string{strings.Repeat("x", 79), "short"}, Size{80, 24})
	if got, want := s.erase(Size{40, 24}), "\r\x1b[3A\x1b[K\n\x1b[J\x1b[A"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// After a suspension, other programs' lines may be below the rows.
func TestScreenErasesNothingAfterSuspension(t *testing.T) {
	continued := make(chan os.Signal, 1)
	var out strings.Builder
	s := Screen{Out: &out, Live: true, Continued: continued}
	for i, erases := range []bool{false, true, false, true} {
		if out.Reset(); i == 2 {
			continued <- syscall.SIGCONT
		}
		s.update(nil, []string{"row"}, Size{80, 24})
		if got := strings.Contains(out.String(), "\x1b[J"); got != erases {
			t.Errorf("drawing %d erases: %v", i, got)
		}
	}
}

func TestLastLineSkipsBlankLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	steps := []struct{ add, want string }{
		{"", ""},
		{"one\n", "one"},
		{"two", "two"},
		{"\r 50%\r100%\n\n\n", "100%"},
		{strings.Repeat("x", 2*tailBytes) + "\nthe end\n", "the end"},
	}
	for _, s := range steps {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(s.add)
		f.Close()
		if got := LastLine(path); got != s.want {
			t.Errorf("after %q: got %q, want %q", s.add, got, s.want)
		}
	}
	if got := LastLine(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("of a missing file: got %q, want none", got)
	}
}
