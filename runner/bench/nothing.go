package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/disk"
)

// nothing is figure 2: a file whose jobs are all up to date.
func (b *bench) nothing() error {
	small, large, edges := b.folder("2-small"), b.folder("2-large"), b.folder("2-ninja")
	b.progress("   making the files and ledgers")
	if err := b.upToDate(small, b.few); err != nil {
		return err
	}
	if err := b.upToDate(large, b.many); err != nil {
		return err
	}
	peer := has("ninja")
	if peer {
		if err := builtEdges(edges, b.few); err != nil {
			return err
		}
	}
	var ours, theirs, most []cost
	for i := range 2*b.rounds + 1 {
		c, err := b.noOp(small)
		if err != nil {
			return err
		}
		ours = append(ours, c)
		if peer {
			if c, err = (command{dir: edges, argv: []string{"ninja"}}).measure(); err != nil {
				return err
			}
			theirs = append(theirs, c)
		}
		if i%2 == 0 {
			if c, err = b.noOp(large); err != nil {
				return err
			}
			most = append(most, c)
		}
	}
	b.nothingRows(ours, theirs, most)
	return nil
}

func (b *bench) nothingRows(ours, theirs, most []cost) {
	wall := func(c cost) float64 { return float64(c.wall) }
	rss := func(c cost) float64 { return float64(c.rss) }
	mid := func(cs []cost, of func(cost) float64) float64 {
		v := make([]float64, len(cs))
		for i, c := range cs {
			v[i] = of(c)
		}
		return median(v)
	}
	t, m := mid(ours, wall), mid(ours, rss)
	if len(theirs) == 0 {
		b.missing("2 nothing to do", "ninja")
	} else {
		tp, mp := mid(theirs, wall), mid(theirs, rss)
		b.atMost(fmt.Sprintf("2 no-op, %s jobs", humanize.Comma(int64(b.few))), millis(time.Duration(t)), "ninja "+millis(time.Duration(tp)), t/tp, 1)
		b.atMost("2 peak memory of it", mebibytes(int64(m)), "ninja "+mebibytes(int64(mp)), m/mp, 2)
	}
	what := fmt.Sprintf("2 no-op, %s jobs", humanize.Comma(int64(b.many)))
	tm, mm := mid(most, wall), mid(most, rss)
	b.atMost(what, seconds(time.Duration(tm)), humanize.Comma(int64(b.few))+" jobs "+millis(time.Duration(t)), tm/t, 12)
	b.under("2 peak memory of it", mebibytes(int64(mm)), "< 1536 MiB", mm < 1536<<20)
}

func (b *bench) noOp(dir string) (cost, error) {
	return command{dir: dir, argv: []string{b.gpurun, "run", "jobs.yaml"}}.measure()
}

// upToDate makes a job file in dir, and the ledger of a run that has done all of
// it, in a process of its own: what this one has in memory would count as its
// children's.
func (b *bench) upToDate(dir string, n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := write(dir, "jobs.yaml", jobFile(n, 0, 2)); err != nil {
		return err
	}
	_, err = command{dir: dir, argv: []string{self, fillCommand, dir, "jobs.yaml", strconv.Itoa(n)}}.measure()
	return err
}

const fillCommand = "__fill"

// fill appends what a run of the jobs of a file would, fact by fact.
func fill(dir, name, count string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	batch, ps := jobspec.Load([]string{name}, jobspec.Options{})
	if len(ps) > 0 {
		return fmt.Errorf("%s: %s", name, ps[0].Text)
	}
	if strconv.Itoa(len(batch.Jobs)) != count {
		return fmt.Errorf("%s has %d jobs, not %s", name, len(batch.Jobs), count)
	}
	s, err := disk.Open([]string{name}, disk.Options{})
	if err != nil {
		return err
	}
	run := disk.Host()
	run.Time = time.Now().UTC()
	if err := s.Append(0, run); err != nil {
		return err
	}
	for i := range batch.Jobs {
		for _, f := range whole(s, &batch.Jobs[i], i) {
			if err := s.Append(0, f); err != nil {
				return err
			}
		}
	}
	return s.Close()
}

// whole is the life of one job as the ledger has it.
func whole(s *disk.State, j *jobspec.Job, i int) []state.Fact {
	zero := 0
	base := state.Fact{
		Time: time.Now().UTC(), Job: j.Name, Key: j.Key.String(), Attempt: 1,
		UniID: fmt.Sprintf("20260101t000000-%010d", i),
	}
	start, running, end := base, base, base
	start.Kind, running.Kind, end.Kind = state.KindStart, state.KindRunning, state.KindEnd
	start.Commands, start.Log, start.Boot = []string{":"}, s.LogPath(0, j.Name), time.Duration(i+1)*time.Millisecond
	start.Params = map[string]string{"i": strconv.Itoa(i + 1)}
	running.PID, running.PIDStart = 1000+i%30000, uint64(100000+i)
	end.State, end.ExitCode, end.Seconds = state.Succeeded, &zero, 0.001
	return []state.Fact{start, running, end}
}
