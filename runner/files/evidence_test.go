package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// finishedBatch returns a batch of three successful jobs in a new folder, with outputs, inputs, a
// log and the history.
func finishedBatch(t *testing.T) (dir string, b *jobspec.Batch, h *state.History) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir+"/jobs.yaml", `
jobs:
  - {name: train, run: train, outputs: [ckpt/a.pt], log: "{uni_id}.log"}
  - {name: read, run: read, inputs: ["data/*.csv"]}
  - {name: talk, run: talk, log: talk.log}
`)
	write(t, dir+"/ckpt/a.pt", "x")
	write(t, dir+"/data/a.csv", "x")
	write(t, dir+"/talk.log", "x")
	b, err := jobspec.Load([]string{dir + "/jobs.yaml"}, jobspec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h = state.NewHistory()
	in, start := started(t, dir, "data/*.csv")
	for i := range b.Jobs {
		j := &b.Jobs[i]
		f := state.Fact{Kind: state.KindStart, Time: start, Key: j.Key.String(), UniID: j.Name, Attempt: 1, Log: filepath.Join(dir, j.Name+".log")}
		if j.Name == "read" {
			f.Inputs = in
		}
		h.Apply(0, f)
		h.Apply(0, state.Fact{Kind: state.KindEnd, Time: start.Add(time.Second), UniID: j.Name, State: state.Succeeded})
	}
	return dir, b, h
}

func TestEvidenceFindsChangedFiles(t *testing.T) {
	const train, read, talk = 0, 1, 2
	remove := func(path string) func(*testing.T, string, *state.History, *jobspec.Batch) {
		return func(t *testing.T, dir string, _ *state.History, _ *jobspec.Batch) {
			if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(job int, f state.Fact) func(*testing.T, string, *state.History, *jobspec.Batch) {
		return func(t *testing.T, dir string, h *state.History, b *jobspec.Batch) {
			remove("ckpt")(t, dir, h, b)
			remove("talk.log")(t, dir, h, b)
			f.Key = b.Jobs[job].Key.String()
			h.Apply(0, f)
		}
	}
	// another adds a run of a job named train from second 3 to second 5, with its output written in
	// the given second.
	another := func(written int, phase state.Phase, change func(start, end *state.Fact)) func(*testing.T, string, *state.History, *jobspec.Batch) {
		return func(t *testing.T, dir string, h *state.History, b *jobspec.Batch) {
			ended := h.Of(0, b.Jobs[train].Key.String()).Time
			at := func(second int) time.Time { return ended.Add(time.Duration(second-1) * time.Second) }
			start := state.Fact{Kind: state.KindStart, Time: at(3), Key: "other", Job: "train", UniID: "o"}
			end := state.Fact{Kind: state.KindEnd, Time: at(5), Key: "other", Job: "train", UniID: "o", State: phase}
			if change != nil {
				change(&start, &end)
			}
			h.Apply(0, start)
			h.Apply(0, end)
			if err := os.Chtimes(dir+"/ckpt/a.pt", at(written), at(written)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, row := range []struct {
		name   string
		job    int
		change func(*testing.T, string, *state.History, *jobspec.Batch)
		want   sched.Evidence
	}{
		{"output exists, no log", train, remove("train.log"), sched.Evidence{}},
		{"output deleted", train, remove("ckpt/a.pt"), sched.Evidence{MissingOutput: "ckpt/a.pt"}},
		{"input unchanged", read, remove("talk.log"), sched.Evidence{}},
		{"input changed", read, func(t *testing.T, dir string, _ *state.History, _ *jobspec.Batch) {
			rewrite(t, dir+"/data/a.csv", "y", time.Hour)
		}, sched.Evidence{ChangedInput: "data/a.csv"}},
		{"input deleted", read, remove("data"), sched.Evidence{}},
		{"log exists", talk, remove("ckpt"), sched.Evidence{}},
		{"log deleted", talk, remove("talk.log"), sched.Evidence{LogDeleted: true}},
		{"nothing declared", train, func(t *testing.T, dir string, h *state.History, b *jobspec.Batch) {
			remove("ckpt")(t, dir, h, b)
			b.Jobs[train].Spec.HasOutputs, b.Jobs[train].Spec.LogNamed = false, false
		}, sched.Evidence{}},
		{"failed since", train, end(train, state.Fact{Kind: state.KindEnd, State: state.Failed}), sched.Evidence{}},
		{"forgotten", train, end(train, state.Fact{Kind: state.KindForget}), sched.Evidence{}},
		{"marked done, needs no log", talk, end(talk, state.Fact{Kind: state.KindEnd, State: state.Succeeded, By: "done"}), sched.Evidence{}},
		{"marked done, needs its output", train, end(train, state.Fact{Kind: state.KindEnd, State: state.Succeeded, By: "done"}), sched.Evidence{MissingOutput: "ckpt/a.pt"}},
		{"another command wrote the output", train, another(4, state.Succeeded, nil), sched.Evidence{Overwritten: "ckpt/a.pt"}},
		{"another command failed, and wrote it", train, another(4, state.Failed, nil), sched.Evidence{Overwritten: "ckpt/a.pt"}},
		{"another command did not write it", train, another(0, state.Succeeded, nil), sched.Evidence{}},
		{"copied after another command", train, another(6, state.Succeeded, nil), sched.Evidence{}},
		{"touched before another command", train, another(2, state.Succeeded, nil), sched.Evidence{}},
		{"another job wrote it", train, another(4, state.Succeeded, func(start, end *state.Fact) { start.Job, end.Job = "test", "test" }), sched.Evidence{}},
		{"another command began before the end", train, another(4, state.Succeeded, func(start, _ *state.Fact) { start.Time = start.Time.Add(-3 * time.Second) }), sched.Evidence{}},
		{"another command was marked done", train, another(4, state.Succeeded, func(start, _ *state.Fact) { start.Kind = state.KindRun }), sched.Evidence{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir, b, h := finishedBatch(t)
			row.change(t, dir, h, b)
			if got := Evidence(b, h, sched.Options{})[row.job]; got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}
