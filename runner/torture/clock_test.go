package torture

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/state"
)

// later shifts every time in a ledger by d. Shifting the past one hour forward has the effect of
// setting the clock back by an hour.
func (l *lane) later(d time.Duration) {
	l.t.Helper()
	path := filepath.Join(l.state, "ledger.jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		var fields map[string]json.RawMessage
		var f state.Fact
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			l.t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			l.t.Fatal(err)
		}
		fields["time"], _ = json.Marshal(f.Time.Add(d))
		moved, _ := json.Marshal(fields)
		out.Write(append(moved, '\n'))
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// The clock is set back or forward by an hour while there is no runner. The running job must be
// adopted, its duration must be correct, its retry must happen when due, and no job that succeeded
// may run again.
func TestClockChangeLosesNothing(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"back": time.Hour, "forward": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := batch(t, `jobs:
  - {name: first, gpus: 0, run: "echo first >>DIR/ran"}
  - {name: train, gpus: 0, needs: [first], run: "echo train >>DIR/ran; sleep 2"}
  - {name: again, gpus: 0, needs: [train], retry: {max: 1, delay: 1s}, run: "echo again >>DIR/ran; test -e DIR/twice || ! : >DIR/twice"}
`)
			ran := func() string {
				b, _ := os.ReadFile(filepath.Join(l.dir, "ran"))
				return string(b)
			}
			r := l.start()
			until(t, "the job", patience, func() bool { return strings.HasSuffix(ran(), "train\n") })
			l.kill(r)
			l.later(by)
			began := time.Now()
			l.run(0)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("the second run took %v", took)
			}
			led := readLedger(t, filepath.Join(l.state, "ledger.jsonl"))
			train := led.attempts[led.order[1]]
			if got := outcome(train); got != "succeeded (exit 0) " || train.end.Seconds < 1.5 || train.end.Seconds > 60 {
				t.Errorf("train: got %s after %v s, want success after 1.5 s to 60 s", got, train.end.Seconds)
			}
			l.later(by)
			l.run(0)
			if got, want := ran(), "first\ntrain\nagain\nagain\n"; got != want {
				t.Errorf("jobs ran in this order:\n%swant:\n%s", got, want)
			}
			noneLeft(t, l.mark)
		})
	}
}
