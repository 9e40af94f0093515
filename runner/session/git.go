package session

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// gitLimit bounds the wait for git, which may be slow on a network file system.
const gitLimit = 2 * time.Second

// askGit asks git for the commit of each file's work dir while the GPU driver starts. It does not
// take git's lock.
func (r *Run) askGit() <-chan []schema.Git {
	answer := make(chan []schema.Git, 1)
	r.Go(func() { answer <- commitsOf(r.Batch) })
	return answer
}

// commitsOf returns the commit of each file's work dir, or "" for a work dir outside a repository.
func commitsOf(b *jobspec.Batch) []schema.Git {
	return inWorkDirs(b, func(ctx context.Context, dir string) schema.Git {
		id := gitHead(ctx, dir)
		if id == "" {
			return schema.Git{}
		}
		changes, err := git(ctx, dir, "status", "--porcelain", "--untracked-files=no")
		return schema.Git{Commit: id, Dirty: err == nil && changes != ""}
	})
}

// inWorkDirs calls ask once for each distinct work dir, and returns the answer for each file.
func inWorkDirs[T any](b *jobspec.Batch, ask func(ctx context.Context, dir string) T) []T {
	ctx, cancel := context.WithTimeout(context.Background(), gitLimit)
	defer cancel()
	known := map[string]T{}
	out := make([]T, len(b.Files))
	for i, f := range b.Files {
		if _, ok := known[f.WorkDir]; !ok {
			known[f.WorkDir] = ask(ctx, f.WorkDir)
		}
		out[i] = known[f.WorkDir]
	}
	return out
}

// gitHead returns the commit that is checked out, or "" outside a repository.
func gitHead(ctx context.Context, dir string) string {
	id, err := git(ctx, dir, "rev-parse", "--verify", "-q", "HEAD")
	if err != nil {
		return ""
	}
	return id
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := host.Git(ctx, dir, nil, args...)
	return strings.TrimSpace(out), err
}

// CodeChanged prints a note if the code has changed since the last run. Changed code alone does not
// rerun any job, but the user may want it to.
func CodeChanged(w io.Writer, b *jobspec.Batch, h *state.History) {
	was := make([]string, len(b.Files))
	for i := range was {
		was[i] = h.LastRun(i).Commit
	}
	if strings.Join(was, "") == "" {
		return // there is nothing to compare with
	}
	for i, now := range inWorkDirs(b, gitHead) {
		if was[i] != "" && now != "" && now != was[i] {
			fmt.Fprintf(w, "%s: the code changed since the last run (commit %.10s, now %.10s); use --force to rerun jobs\n", b.Files[i].Path, was[i], now)
		}
	}
}

// recordValues records a run that had nothing to do if its -p values differ from those of the last
// run, so that later commands show the new values.
func (r *Run) recordValues(res *schema.Result) {
	same := true
	for i := range r.Batch.Files {
		same = same && maps.Equal(r.State.History().LastRun(i).Params, r.Batch.Params)
	}
	if same {
		return
	}
	for i, f := range r.runFacts(<-r.askGit()) {
		if _, err := r.State.Append(i, f); err != nil {
			r.Warn("gpurun status and gpurun results still show the values of the last run: " + err.Error())
			return
		}
	}
	r.recordOver(res)
}

// runFacts returns, for the ledger of each file, the fact that begins this run.
func (r *Run) runFacts(commits []schema.Git) []state.Fact {
	settings := map[string]string{}
	for _, s := range r.Batch.Settings.Sources {
		settings[s.Name] = s.Value
	}
	facts, needed := make([]state.Fact, len(r.Batch.Files)), neededFiles(r.Batch)
	for i := range facts {
		f := disk.Host()
		f.Kind, f.Time, f.Version, f.Gpurun, f.Settings = state.KindRun, time.Now().UTC(), state.Version, r.Version, settings
		f.RunID, f.Params, f.Usable, f.Within = RunID(), r.Batch.Params, r.usable, r.clusterJob
		if r.Prober != nil {
			f.Driver = r.Prober.Version()
		}
		f.Commit, f.Dirty, f.Sim = commits[i].Commit, commits[i].Dirty, r.Source.Sim
		for _, n := range needed[i] {
			if rel, err := filepath.Rel(filepath.Dir(r.Batch.Files[i].Real), r.Batch.Files[n].Real); err == nil {
				f.Files = append(f.Files, rel)
			}
		}
		if i < len(r.code) {
			f.Snapshot = r.code[i].Home()
		}
		facts[i] = f
	}
	return facts
}

// neededFiles returns, for each file of a batch, the other files whose jobs its jobs need, directly
// or not.
func neededFiles(b *jobspec.Batch) [][]int {
	needed := make([][]int, len(b.Files))
	if len(b.Files) == 1 {
		return needed
	}
	add := func(file, need int) (added bool) {
		if added = file != need && !slices.Contains(needed[file], need); added {
			needed[file] = append(needed[file], need)
		}
		return added
	}
	for i := range b.Jobs {
		for _, n := range b.Jobs[i].Needs {
			if other := b.Jobs[n].File; other != b.Jobs[i].File {
				add(b.Jobs[i].File, other)
			}
		}
	}
	for more := true; more; {
		more = false
		for file := range needed {
			for _, need := range needed[file] {
				for _, next := range needed[need] {
					more = add(file, next) || more
				}
			}
		}
	}
	return needed
}
