package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/disk"
)

// nothing measures files whose jobs are all up to date.
func (b *bench) nothing() error {
	small, err := b.upToDate(b.few)
	if err != nil {
		return err
	}
	large, err := b.upToDate(b.many)
	if err != nil {
		return err
	}
	if !has("ninja") {
		b.unmeasured("no-op", "ninja")
		return nil
	}
	built, err := b.built(b.few)
	if err != nil {
		return err
	}
	var ours, theirs, many [2][]float64 // time in seconds, memory in bytes
	for range 2*b.rounds + 1 {
		for _, m := range []struct {
			dir  string
			argv []string
			into *[2][]float64
		}{
			{small, []string{b.gpurun, "run", "jobs.yaml"}, &ours},
			{built, []string{"ninja"}, &theirs},
			{large, []string{b.gpurun, "run", "jobs.yaml"}, &many},
		} {
			c, err := command{dir: m.dir, argv: m.argv}.measure()
			if err != nil {
				return err
			}
			m.into[0], m.into[1] = append(m.into[0], c.wall.Seconds()), append(m.into[1], float64(c.rss))
		}
	}
	b.compareMedians("no-op, "+humanize.Comma(int64(b.few))+" jobs", "ninja ", seconds, ours[0], theirs[0], 1)
	b.compareMedians("its peak memory", "ninja ", mebibytes, ours[1], theirs[1], 2)
	b.compareMedians("no-op, "+humanize.Comma(int64(b.many))+" jobs", humanize.Comma(int64(b.few))+" jobs ", seconds, many[0], ours[0], 12)
	return nil
}

func (b *bench) compareMedians(figure, peer string, text func(float64) string, ours, theirs []float64, bar float64) {
	x, y := median(ours), median(theirs)
	b.ratio(figure, text(x), peer+text(y), x/y, "≤", bar)
}

func seconds(v float64) string { return millis(time.Duration(v * 1e9)) }

func mebibytes(v float64) string { return fmt.Sprintf("%.0f MiB", v/(1<<20)) }

// upToDate makes a job file of n jobs and the ledger of the run that did them, in
// a process of its own: memory of this one would count as its children's.
func (b *bench) upToDate(n int) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := b.folder("no-op")
	_, err = command{dir: dir, files: map[string]string{"jobs.yaml": jobFile(n)}, argv: []string{self, fillCommand, "jobs.yaml"}}.measure()
	return dir, err
}

const fillCommand = "__fill"

// fill appends to the ledger of a job file what a run of its jobs would.
func fill(file string) error {
	batch, problems := jobspec.Load([]string{file}, jobspec.Options{})
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", file, problems[0].Text)
	}
	s, err := disk.Open([]string{file}, disk.Options{})
	if err != nil {
		return err
	}
	run := disk.Host()
	run.Time = time.Now().UTC()
	if err := s.Append(0, run); err != nil {
		return err
	}
	zero := 0
	for i := range batch.Jobs {
		j := &batch.Jobs[i]
		f := state.Fact{Time: run.Time, Job: j.Name, Key: j.Key.String(), Attempt: 1, UniID: fmt.Sprintf("20260101t000000-%010d", i)}
		start, running, end := f, f, f
		start.Kind, start.Commands, start.Params = state.KindStart, []string{"touch o" + strconv.Itoa(i+1)}, map[string]string{"i": strconv.Itoa(i + 1)}
		start.Log, start.Boot = s.LogPath(0, j.Name), time.Duration(i+1)*time.Millisecond
		running.Kind, running.PID, running.PIDStart = state.KindRunning, 1000+i%30000, uint64(100000+i)
		end.Kind, end.State, end.ExitCode, end.Seconds = state.KindEnd, state.Succeeded, &zero, 0.001
		if _, err := s.AppendAll(0, start, running, end); err != nil {
			return err
		}
	}
	return s.Close()
}

// built makes a folder in which ninja has built n edges. One edge with all outputs
// builds them in a second; then each output gets an edge of its own. As its command
// is the same to the letter, ninja has nothing to do.
func (b *bench) built(n int) (string, error) {
	const rule = "sh make.sh"
	dir := b.folder("ninja")
	var all strings.Builder
	fmt.Fprintf(&all, "rule t\n command = %s\nbuild", rule)
	for i := range n {
		fmt.Fprintf(&all, " o%d", i+1)
	}
	all.WriteString(": t\n")
	files := map[string]string{"build.ninja": all.String(), "make.sh": fmt.Sprintf("seq -f o%%.0f %d | xargs touch\n", n)}
	if _, err := (command{dir: dir, files: files, argv: []string{"ninja"}}).measure(); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "build.ninja"), []byte(edges(rule, n)), 0o666); err != nil {
		return "", err
	}
	_, err := command{dir: dir, argv: []string{"sh", "-c", "ninja -n | grep 'no work to do'"}}.measure()
	return dir, err
}
