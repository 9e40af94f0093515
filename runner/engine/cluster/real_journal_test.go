package cluster_test

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"gpurun/state"
)

// Journalled returns a job file with n jobs, j0 and so on, that keep their own journal: each begin
// and end, and each begin while another attempt of the job is running.
func Journalled(settings string, n int, keys, sleep string) string {
	return fmt.Sprintf(`
settings: %s
jobs:
  - name: "j{i}"
    matrix: {i: "0..%d"}
    %s
    run: |
      exec 9>>lock.{i}
      flock -n 9 || echo {i} overlaps >>journal
      echo {i} begins >>journal
      sleep %s
      echo {i} ends >>journal
`, settings, n-1, keys, sleep)
}

// Journal counts the entries of the jobs, by entry and by last word.
func (b *Bench) Journal() map[string]int {
	count := map[string]int{}
	for line := range strings.Lines(b.Read("journal")) {
		line = strings.TrimSpace(line)
		count[line]++
		count[line[strings.LastIndexByte(line, ' ')+1:]]++
	}
	return count
}

// Once checks that each of n journalled jobs ran to its end once and succeeded once in the ledger,
// and that its attempts did not overlap. It returns the number of additional begins, for which the
// cluster must have ended an earlier attempt.
func (b *Bench) Once(n int) (again int) {
	b.Helper()
	ran, ends, lost := b.Journal(), b.Facts(state.KindEnd), 0
	for i := range n {
		name, good := fmt.Sprint("j", i), 0
		for _, e := range ends[name] {
			if e.State == state.Succeeded {
				good++
			}
		}
		begins, over := ran[fmt.Sprint(i, " begins")], ran[fmt.Sprint(i, " ends")]
		if over != 1 || good != 1 || begins < 1 || ran[fmt.Sprint(i, " overlaps")] > 0 {
			if lost++; lost <= 5 {
				b.Errorf("%s began %d times, ended %d times, overlapped %d times; the ledger has %d successes of %+v",
					name, begins, over, ran[fmt.Sprint(i, " overlaps")], good, ends[name])
			}
		}
		again += begins - 1
	}
	if lost > 5 {
		b.Errorf("the same for %d more jobs", lost-5)
	}
	return again
}

// KillRunners kills the runner repeatedly at arbitrary moments, and lets the last one finish. Before
// each kill, it runs one of the commands in meanwhile.
func (b *Bench) KillRunners(kills int, meanwhile [][]string, args ...string) string {
	b.Helper()
	for i := range kills {
		cmd, _ := b.Start(args...)
		pause := time.Duration(20+i*i%37*15) * time.Millisecond
		if len(meanwhile) > 0 {
			b.Until("the run has accepted a command", time.Minute, func() bool {
				other, _ := b.Start(meanwhile[i%len(meanwhile)]...)
				return b.Finish(other) == nil || Exited(cmd)
			})
		}
		time.Sleep(pause)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return b.Run(args...)
}

// Crash runs n journalled jobs, crashes the controller in the meantime, and returns gpurun's output.
// It calls tend until the run ends.
func (b *Bench) Crash(crashes, n int, tend func(), args ...string) string {
	b.Helper()
	cmd, out := b.Start(args...)
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for k := range crashes {
		b.Until(fmt.Sprintf("enough jobs have begun for crash %d", k+1), 4*time.Minute, func() bool {
			tend()
			return b.Journal()["begins"] > n*k/crashes || len(over) > 0
		})
		b.Cluster("kill")
		b.Cluster("start")
	}
	b.Until("the run has ended", 9*time.Minute, func() bool {
		tend()
		return len(over) > 0
	})
	return out.String()
}

// Quietly runs a command that may fail.
func Quietly(args ...string) { _, _ = limited((*exec.Cmd).CombinedOutput, args...) }
