package clustertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gpurun/state"
)

// Elastic returns a job that takes n steps of a tenth of a second, or fewer if a file says that it is
// enough. It keeps a checkpoint of each, and a journal: when it begins, with how many GPUs, and
// whether another attempt of it runs at the same time. before its steps, it may set a trap, or
// redefine what it does at each.
func Elastic(name string, n int, most int, before, keys string) string {
	return fmt.Sprintf(`
  - name: %s
    gpus: 1-%d
    resize: {grace: 20s, every: 1s}
    %s
    run: |
      exec 9>>lock.{name}; flock -n 9 || echo {name} overlaps >>journal
      step=$(cat step.{name} 2>/dev/null || echo 0)
      echo "{name} {ngpus} begins $step $(date +%%s%%N)" >>journal
      each() { :; }
      %s
      while [ $step -lt %d ] && [ ! -e enough ]; do each; step=$((step + 1)); echo $step >step.{name}; sleep 0.1 9>&-; done
      touch out.{name}
      echo {name} ends >>journal
`, name, most, keys, before, n)
}

// Saves is what most jobs do on the signal.
const Saves = `trap 'echo "{name} {ngpus} saves $step $(date +%s%N)" >>journal; exit 3' USR1`

func (s *Site) elastic(t *testing.T, jobs ...string) *Bench {
	return s.New(t, "settings: {engine: "+s.Engine+", poll: 1s, cluster: {poll: 1s}}\njobs:"+strings.Join(jobs, ""))
}

// Grows checks that a running job gets more GPUs: it saves its work, and goes on from there as its
// next attempt, on GPUs that were there before.
func (s *Site) Grows(t *testing.T) {
	grown := []state.Phase{state.Interrupted, state.Succeeded}
	for _, tt := range []struct {
		name, keys, before string
		want               []state.Phase
		says               string
	}{
		{"exits with a status of its own", "", Saves, grown, "from 1 GPU to"},
		{"exits with 0", `outputs: ["out.{name}"]`, strings.Replace(Saves, "exit 3", "exit 0", 1), grown, "from 1 GPU to"},
		{"is done before its grace is over", `outputs: ["out.{name}"]`, `trap "step=5000; echo x >asked" USR1`, []state.Phase{state.Succeeded}, ""},
		{"catches the signal after a while", "", "each() { [ ! -e late ] || " + Saves + "; }", grown, "keeps its GPUs, although"},
		{"does not catch the signal", "", "", []state.Phase{state.Succeeded}, "keeps its GPUs, although resize is set: none of its processes catches SIGUSR1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := s.elastic(t, Elastic("a", 1000, 4, tt.before, tt.keys))
			cmd, out := b.Start("jobs.yaml")
			b.Until("it says "+tt.says, time.Minute, func() bool { return strings.Contains(out.String(), tt.says) })
			b.Write("late", "")
			b.Until("its attempts have begun", time.Minute, func() bool { return len(b.Facts(state.KindRunning)["a"]) == len(tt.want) })
			if strings.Contains(tt.before, "asked") {
				b.Wait("asked")
			}
			b.Write("enough", "")
			_ = b.Finish(cmd)
			b.Says(out.String(), "1 succeeded")
			var got []state.Phase
			for _, e := range b.Facts(state.KindEnd)["a"] {
				got = append(got, e.State)
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("its attempts ended as %v, want %v\n%s", got, tt.want, out)
			}
			b.goesOn("a", len(tt.want))
			b.Until("the cluster has none left", time.Minute, func() bool { return s.Left() == "" })
		})
	}
}

// goesOn checks by the journal of a job that it began so often, each time where it had left off, and
// with more GPUs; that no two attempts overlapped; and that it ended once.
func (b *Bench) goesOn(name string, begins int) {
	b.Helper()
	var gpus, began, step, at, saved, savedAt int
	ends := 0
	for line := range strings.Lines(b.Read("journal") + "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == name+" overlaps":
			b.Errorf("two of its attempts overlap")
		case line == name+" ends":
			ends++
		case strings.HasPrefix(line, name+" ") && strings.Contains(line, " begins "):
			was := gpus
			if _, err := fmt.Sscanf(line, name+" %d begins %d %d", &gpus, &step, &at); err != nil {
				b.Fatalf("%q: %v", line, err)
			}
			if began++; began > 1 && (gpus <= was || step < saved) {
				b.Errorf("it goes on with %d GPUs after %d, from step %d after %d", gpus, was, step, saved)
			}
			if savedAt > 0 {
				b.Logf("%s: %v without its %d GPUs at work", b.Name(), time.Duration(at-savedAt).Round(time.Millisecond), gpus)
			}
		case strings.HasPrefix(line, name+" "):
			_, _ = fmt.Sscanf(line, name+" %d saves %d %d", &gpus, &saved, &savedAt)
		}
	}
	if began != begins || ends != 1 {
		b.Errorf("it began %d times, want %d, and ended %d times:\n%s", began, begins, ends, b.Read("journal"))
	}
}

// GrowsInVain checks that a successor that does not get its GPUs costs nothing: the job ends by
// itself, and before that the run may be asked to start nothing more. crowd keeps jobs that ask for
// this much memory from starting beside one, with a job of its own.
func (s *Site) GrowsInVain(t *testing.T, memory string, crowd func(b *Bench)) {
	if testing.Short() {
		t.Skip("the pure tests have that, too")
	}
	left := func(n int) func() bool { return func() bool { return s.left() == n } }
	for _, drain := range []bool{false, true} {
		b := s.elastic(t, Elastic("a", 150, 4, Saves, "memory: "+memory))
		crowd(b)
		cmd, out := b.Start("jobs.yaml")
		b.Until("its successor is queued", time.Minute, left(3))
		b.Says(b.Run("status"), "to go on with 4 GPUs: queued")
		if drain {
			b.Run("stop", "--drain")
			b.Until("only the job is left", time.Minute, left(2))
		}
		_ = b.Finish(cmd)
		b.Says(out.String(), "1 succeeded")
		b.goesOn("a", 1)
		b.Until("only what crowds is left", time.Minute, left(1))
	}
}

// GrowsAcrossKills kills the runner at any moment while jobs grow, and right after it has recorded that one goes on. No two attempts of a job run at
// the same time, each ends once, and nothing is left in the cluster.
func (s *Site) GrowsAcrossKills(t *testing.T) {
	if testing.Short() {
		t.Skip("the pure tests have that, too")
	}
	grown, rounds := 0, max(1, *Kills/5)
	for round := range rounds {
		names := []string{"a", "b"}
		b := s.elastic(t, Elastic("a", 80, 2, strings.Replace(Saves, "exit", "sleep 0.3 9>&-; exit", 1), ""), Elastic("b", 80, 2, Saves, ""))
		for kill := range 5 {
			cmd, _ := b.Start("jobs.yaml")
			end := time.Now().Add(time.Duration(500+rand.IntN(2500)) * time.Millisecond) // anywhere
			if kill == 0 {
				end = time.Now().Add(20 * time.Second)
			}
			for time.Now().Before(end) && (kill > 0 || !strings.Contains(b.Read(".gpurun/jobs.yaml/ledger.jsonl"), `"attempt":2`)) { // the first time, as soon as a successor has a start
				time.Sleep(100 * time.Microsecond)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		out := b.Run("jobs.yaml")
		ends, ran := b.Facts(state.KindEnd), b.Journal()
		for _, name := range names {
			good := 0
			for _, e := range ends[name] {
				switch {
				case e.State == state.Succeeded:
					good++
				case strings.HasPrefix(e.Reason, "from 1 GPU to"):
					grown++
				}
			}
			if good != 1 || ran[name+" ends"] != 1 || ran[name+" overlaps"] > 0 {
				t.Errorf("round %d: %s succeeded %d times and ended %d times, its attempts overlapped %d times\n%s\n%s", round, name, good, ran[name+" ends"], ran[name+" overlaps"], b.Read("journal"), out)
			}
		}
		b.Until("the cluster has none left", 2*time.Minute, func() bool { return s.Left() == "" })
	}
	t.Logf("%d kills of the runner, %d jobs, of which %d were seen to grow", 5*rounds, 2*rounds, grown)
}
