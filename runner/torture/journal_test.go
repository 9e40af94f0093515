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

// A note is one line of the journal, written by a job.
type note struct {
	at      float64 // seconds since 1970
	what    string  // start or end
	lane    string
	job     string
	uniID   string
	attempt string
	gpus    []string
	memory  float64 // GiB per GPU
	kind    string
	pid     int
	code    string // for an end: exit status, k or term
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

// An entry has the facts in the ledger about one attempt.
type entry struct {
	start, running, stop, end *state.Fact
}

// A ledger holds the facts of one lane.
type ledger struct {
	attempts map[string]*entry
	order    []string // uni_ids in start order
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
		e.running = &f // repeated when an attempt is adopted
	case state.KindStop:
		e.stop = &f // the last one, if a job is stopped several times
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

// An attempt combines the journal and the ledger.
type attempt struct {
	entry
	begun, ended *note
	bare         float64 // from when no keeper held its claim; 0 if one always did
}

// from and to return when the attempt ran, according to the journal. A killed attempt has no end
// there, so the ledger's is used.
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

// match joins the journal and the ledger.
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
			t.Errorf("%s: the ledger has no attempt %s", n.job, n.uniID)
			continue
		}
		switch {
		case n.what == "start" && a.begun == nil:
			a.begun = n
		case n.what == "end" && a.begun != nil && a.ended == nil:
			a.ended = n
		case n.what == "end" && a.ended != nil && n.code == "term" && a.ended.code != "term":
			// SIGTERM arrived just after the job had written its end
		default:
			t.Errorf("%s wrote a %s of attempt %s out of order", n.job, n.what, n.uniID)
		}
	}
	return all
}
