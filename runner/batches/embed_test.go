package batches_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/runner/batches"
	"gpurun/state"
	"gpurun/state/schema"
)

func TestGoProgramExplainsJob(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	if err := os.WriteFile("jobs.yaml", []byte("jobs: [{name: a, run: 'false', gpus: 0}, {name: b, needs: a, run: 'true', gpus: 0}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var notes []string
	reader := &batches.Reader{Start: func(f func()) { go f() }, Note: func(text string) { notes = append(notes, text) }}
	b, err := reader.Reload(nil, "jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	st, err := reader.Lock(b.RealPaths(), "")
	if err != nil {
		t.Fatal(err)
	}
	at, code := time.Now().UTC(), 3
	a := state.Fact{Time: at, Job: "a", Key: b.Jobs[0].Key.String(), UniID: "u1", Attempt: 1}
	start, end, run := a, a, state.Fact{Kind: state.KindRun, Time: at, RunID: "r1"}
	start.Kind, end.Kind, end.State, end.ExitCode = state.KindStart, state.KindEnd, state.Failed, &code
	for _, f := range []state.Fact{run, start, end} {
		if _, err := st.Append(0, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	refs, err := reader.FindJobs("", []string{"b"}, "")
	if err != nil || len(refs) != 1 || refs[0].Real != filepath.Join(b.Files[0].Real) {
		t.Fatalf("got %+v, %v", refs, err)
	}
	w := refs[0].Explain()
	i := slices.IndexFunc(w.Status.Jobs, func(j *schema.Job) bool { return j.Name == "b" })
	if i < 0 || w.Status.Jobs[i].State != state.Blocked {
		t.Fatalf("got %+v", w.Status.Jobs)
	}
	text := strings.Join(w.Chain(w.Status.Jobs[i]), "\n")
	for _, want := range []string{"blocked", "a (jobs.yaml:1): failed", "exit", "it will run in the next run"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if len(notes) > 0 {
		t.Errorf("got unexpected notes %q", notes)
	}
}
