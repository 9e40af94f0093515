package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/state"
)

// A note is one line that a job wrote.
type note struct {
	at      float64 // seconds since 1970
	what    string  // start or end
	lane    string
	job     string
	uniID   string
	attempt string
	gpus    []string
	memory  float64 // GiB on each
	kind    string
	pid     int
	code    string // of an end: exit status, k or term
}

func readJournal(t testing.TB, path string) []note {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var notes []note
	for line := range bytes.Lines(b) {
		n, err := parseNote(string(line))
		if err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		notes = append(notes, n)
	}
	return notes
}

func parseNote(line string) (note, error) {
	f := strings.Fields(line)
	if len(f) != 11 || !strings.HasSuffix(line, "\n") {
		return note{}, fmt.Errorf("want 11 fields and a newline")
	}
	n := note{what: f[1], lane: f[2], job: f[3], uniID: f[4], attempt: f[5], kind: f[8], code: f[10]}
	var err error
	if n.at, err = strconv.ParseFloat(f[0], 64); err != nil {
		return n, err
	}
	if f[6] != "-" {
		n.gpus = strings.Split(f[6], ",")
	}
	if n.memory, err = strconv.ParseFloat(f[7], 64); err != nil {
		return n, err
	}
	n.pid, err = strconv.Atoi(f[9])
	return n, err
}

// An entry is what the ledger says of one attempt.
type entry struct {
	start, running, stop, end *state.Fact
}

// A ledger is the facts of one lane.
type ledger struct {
	attempts map[string]*entry
	order    []string // uni_ids as they were started
	runs     int
	torn     int
}

func readLedger(t testing.TB, path string) ledger {
	t.Helper()
	l := ledger{attempts: map[string]*entry{}}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var f state.Fact
		if json.Unmarshal(line, &f) != nil {
			l.torn++
			continue
		}
		l.take(t, f)
	}
	return l
}

func (l *ledger) take(t testing.TB, f state.Fact) {
	t.Helper()
	if f.Kind == state.KindRun {
		l.runs++
	}
	if f.UniID == "" {
		return
	}
	e := l.attempts[f.UniID]
	if e == nil {
		e = &entry{}
		l.attempts[f.UniID] = e
		l.order = append(l.order, f.UniID)
	}
	switch f.Kind {
	case state.KindStart:
		once(t, &e.start, f)
	case state.KindRunning:
		e.running = &f // an adopted attempt is said to run once more
	case state.KindStop:
		e.stop = &f // the first reason counts, further stops may follow
	case state.KindEnd:
		once(t, &e.end, f)
	}
}

func once(t testing.TB, at **state.Fact, f state.Fact) {
	t.Helper()
	if *at != nil {
		t.Errorf("the ledger has two facts %q of %s (%s)", f.Kind, f.UniID, f.Job)
	}
	*at = &f
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// An attempt is one as the journal and the ledger together have it.
type attempt struct {
	entry
	begun, ended *note
	bare         float64 // from when on its claim had no keeper to hold it, or 0
}

// from and to are its time as the journal has it. An attempt that was killed has
// no end there: it is over when the ledger says so.
func (a *attempt) from() float64 { return a.begun.at }

func (a *attempt) to() float64 {
	switch {
	case a.ended != nil:
		return a.ended.at
	case a.end != nil:
		return seconds(a.end.Time)
	}
	return math.Inf(1)
}

// match puts journal and ledger side by side.
func match(t testing.TB, l ledger, notes []note) map[string]*attempt {
	t.Helper()
	all := map[string]*attempt{}
	for id, e := range l.attempts {
		all[id] = &attempt{entry: *e}
	}
	for i := range notes {
		n := &notes[i]
		a := all[n.uniID]
		if a == nil {
			t.Errorf("%s ran as %s, which the ledger does not know", n.job, n.uniID)
			continue
		}
		switch {
		case n.what == "start" && a.begun == nil:
			a.begun = n
		case n.what == "end" && a.begun != nil && a.ended == nil:
			a.ended = n
		case n.what == "end" && a.ended != nil && n.code == "term" && a.ended.code != "term":
			// it was told to stop when it had just ended
		default:
			t.Errorf("%s noted down %s of %s out of turn", n.job, n.what, n.uniID)
		}
	}
	return all
}
