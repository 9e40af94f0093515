package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/disk"
)

// folder makes a fresh folder with these files.
func (b *bench) folder(files ...file) string {
	dir := b.TempDir()
	for _, f := range files {
		b.must(os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o666))
	}
	return dir
}

type file struct{ name, text string }

// jobFile is a job file of n CPU jobs, the commands of ninja's edges.
func jobFile(n int) file { return jobFileWith(n, "") }

// jobFileWith adds keys to each of the jobs.
func jobFileWith(n int, keys string) file {
	return file{"jobs.yaml", fmt.Sprintf("settings: {max_concurrent: 2}\njobs:\n"+
		"  - {name: \"j{i}\", matrix: {i: 1..%d}, run: \"touch o{i}\", gpus: 0, shell: [sh, -c]%s}\n", n, keys)}
}

// edges is a ninja file with an edge for each of these outputs, all with one command.
func edges(command string, outputs []string) file {
	return file{"build.ninja", "rule t\n command = " + command + "\nbuild " + strings.Join(outputs, ": t\nbuild ") + ": t\n"}
}

// outputs are the files that n jobs touch.
func outputs(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("o%d", i+1)
	}
	return names
}

// upToDate makes a job file of n jobs and the ledger of the run that did them, in
// a process of its own: memory of this one would count as its children's.
func (b *bench) upToDate(n int) *contender {
	c := b.filled(jobFile(n))
	c.argv = []string{b.gpurun, "run", "jobs.yaml"}
	return c
}

// withOutputs does the same for jobs that declare their outputs, as ninja's edges do.
func (b *bench) withOutputs(n int) *contender {
	var made []file
	for _, name := range outputs(n) {
		made = append(made, file{name, ""})
	}
	c := b.filled(jobFileWith(n, ", outputs: [\"o{i}\"]"), made...)
	c.argv = []string{b.gpurun, "run", "jobs.yaml"}
	return c
}

// filled makes a folder with a job file, such a ledger, and other files that are there before.
func (b *bench) filled(f file, others ...file) *contender {
	c := &contender{program: "gpurun", dir: b.folder(append(others, f)...)}
	b.must(b.time(&contender{argv: []string{b.self, fillCommand, f.name}}, c.dir))
	return c
}

// resultsFile is a job file of n CPU jobs, with ten seeds for each setting.
func resultsFile(n int) file {
	return file{"results.yaml", fmt.Sprintf("jobs:\n  - {name: \"r{i}-{seed}\", matrix: {i: 1..%d, seed: 1..10}, run: \"touch o{i}-{seed}\", gpus: 0}\n", max(n/10, 1))}
}

// measuredBy returns the metrics of the i-th job of such a file.
func measuredBy(i int) map[string]any {
	all := map[string]any{}
	for m := range 10 {
		all[fmt.Sprintf("metric_%d", m)] = float64((i*7919+m*104729)%1000003) / 1000003
	}
	return all
}

const fillCommand = "__fill"

// fill appends to the ledger of a job file what a run of its jobs would.
func fill(file string) error {
	batch, err := jobspec.Load([]string{file}, jobspec.Options{})
	if err != nil {
		return err
	}
	s, err := disk.Open([]string{file}, disk.Options{})
	if err != nil {
		return err
	}
	run := disk.Host()
	run.Time = time.Now().UTC()
	if _, err := s.Append(0, run); err != nil {
		return err
	}
	zero := 0
	for i := range batch.Jobs {
		j := &batch.Jobs[i]
		f := state.Fact{Time: run.Time, Job: j.Name, Key: j.Key.String(), Attempt: 1, UniID: fmt.Sprintf("20260101t000000-%010d", i)}
		start, running, end := f, f, f
		start.Kind, start.Commands, start.Params = state.KindStart, []string{"touch o" + strconv.Itoa(i+1)}, map[string]string{"i": strconv.Itoa(i + 1)}
		start.Log = s.LogPath(0, j.Name)
		running.Kind, running.PID, running.PIDStart = state.KindRunning, 1000+i%30000, uint64(100000+i)
		end.Kind, end.State, end.ExitCode, end.Seconds = state.KindEnd, state.Succeeded, &zero, 0.001
		if file == "results.yaml" {
			end.Metrics = measuredBy(i)
		}
		if _, err := s.Append(0, start, running, end); err != nil {
			return err
		}
	}
	return s.Close()
}

// built makes a folder in which ninja has built n edges. One edge with all outputs
// builds them in a second; then each output gets an edge of its own. As its command
// is the same to the letter, ninja has nothing to do.
func (b *bench) built(n int) *contender {
	c := &contender{program: "ninja", argv: []string{"ninja"}}
	command, names := fmt.Sprintf("seq -f o%%.0f %d | xargs touch", n), outputs(n)
	all, each := edges(command, []string{strings.Join(names, " ")}), edges(command, names)
	c.dir = b.folder(all, file{"each", each.text})
	b.must(b.race(1, &contender{program: "ninja", dir: c.dir, argv: sh("ninja && mv each build.ninja && ninja -n | grep 'no work to do'")}))
	return c
}
