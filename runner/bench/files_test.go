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

// folder creates a new folder with these files.
func (b *bench) folder(files ...file) string {
	dir := b.TempDir()
	for _, f := range files {
		b.must(os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o666))
	}
	return dir
}

type file struct{ name, text string }

// jobFile returns a job file with n CPU jobs that run the same commands as ninja's edges.
func jobFile(n int) file { return jobFileWith(n, "") }

// jobFileWith is jobFile with additional keys for each job.
func jobFileWith(n int, keys string) file {
	return file{"jobs.yaml", fmt.Sprintf("settings: {max_concurrent: 2}\njobs:\n"+
		"  - {name: \"j{i}\", matrix: {i: 1..%d}, run: \"touch o{i}\", gpus: 0, shell: [sh, -c]%s}\n", n, keys)}
}

// edges returns a ninja file with an edge for each output, all with the same command.
func edges(command string, outputs []string) file {
	return file{"build.ninja", "rule t\n command = " + command + "\nbuild " + strings.Join(outputs, ": t\nbuild ") + ": t\n"}
}

// outputs returns the files that n jobs touch.
func outputs(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("o%d", i+1)
	}
	return names
}

// upToDate creates a job file with n jobs and the ledger of a run that completed them. A separate
// process writes the ledger, because memory of this one would be attributed to its children.
func (b *bench) upToDate(n int) *contender {
	c := b.filled(jobFile(n))
	c.argv = []string{b.gpurun, "run", "jobs.yaml"}
	return c
}

// withOutputs is upToDate for jobs that declare their outputs, as ninja's edges do.
func (b *bench) withOutputs(n int) *contender {
	var made []file
	for _, name := range outputs(n) {
		made = append(made, file{name, ""})
	}
	c := b.filled(jobFileWith(n, ", outputs: [\"o{i}\"]"), made...)
	c.argv = []string{b.gpurun, "run", "jobs.yaml"}
	return c
}

// filled creates a folder with a job file, the ledger of a complete run, and other files that exist
// before.
func (b *bench) filled(f file, others ...file) *contender {
	c := &contender{program: "gpurun", dir: b.folder(append(others, f)...)}
	b.must(b.time(&contender{argv: []string{b.self, fillCommand, f.name}}, c.dir))
	return c
}

// resultsFile returns a job file with n CPU jobs, ten seeds for each setting.
func resultsFile(n int) file {
	return file{"results.yaml", fmt.Sprintf("jobs:\n  - {name: \"r{i}-{seed}\", matrix: {i: 1..%d, seed: 1..10}, run: \"touch o{i}-{seed}\", gpus: 0}\n", max(n/10, 1))}
}

// measuredBy returns the metrics of the i-th job in a resultsFile.
func measuredBy(i int) map[string]any {
	all := map[string]any{}
	for m := range 10 {
		all[fmt.Sprintf("metric_%d", m)] = float64((i*7919+m*104729)%1000003) / 1000003
	}
	return all
}

const fillCommand = "__fill"

// fill appends to a job file's ledger what a run of its jobs would append.
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

// built creates a folder in which ninja has built n edges. One edge with all outputs builds them in
// a second. Then each output gets an edge of its own; because its command is identical, ninja has
// nothing to do.
func (b *bench) built(n int) *contender {
	c := &contender{program: "ninja", argv: []string{"ninja"}}
	command, names := fmt.Sprintf("seq -f o%%.0f %d | xargs touch", n), outputs(n)
	all, each := edges(command, []string{strings.Join(names, " ")}), edges(command, names)
	c.dir = b.folder(all, file{"each", each.text})
	b.must(b.race(1, &contender{program: "ninja", dir: c.dir, argv: sh("ninja && mv each build.ninja && ninja -n | grep 'no work to do'")}))
	return c
}
