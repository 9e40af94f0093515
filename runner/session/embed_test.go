package session_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/engine/local/keeper"
	"gpurun/runner/session"
	"gpurun/state"
	"gpurun/state/schema"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__keeper" {
		os.Exit(keeper.Main(os.Args[2:], keeper.Usual))
	}
	os.Exit(m.Run())
}

// ended records jobs and their final states in the order of their ends.
type ended struct{ jobs []string }

func (e *ended) Fact(_ int, f state.Fact) {
	if f.Kind == state.KindEnd {
		e.jobs = append(e.jobs, f.Job+" "+string(f.State))
	}
}

func (*ended) Snapshot(*schema.Status) {}

// messages records the messages of a run.
type messages struct{ bytes.Buffer }

func (s *messages) Hint(text string)  { s.WriteString(text + "\n") }
func (s *messages) Print(text string) { s.WriteString(text + "\n") }
func (s *messages) Warn(text string)  { s.WriteString(text + "\n") }

func TestGoProgramRunsJobFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "GPURUN_CLAIMS_DIR"} {
		t.Setenv(name, filepath.Join(dir, name))
	}
	path := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(path, []byte("jobs: [{name: a, run: 'echo $CUDA_VISIBLE_DEVICES >a.out'}, {name: b, needs: a, run: cp a.out b.out}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	view, seen := &messages{}, &ended{}
	p := session.NewProcess(func(kind, text string) { view.Print(kind + ": " + text) })
	r := session.New(session.Config{
		Process: p, Reader: &batches.Reader{Start: p.Go}, Out: io.Discard, Source: &session.GPUs{Sim: "2x24GiB", Here: true},
		Files: func() ([]string, jobspec.Options, error) { return []string{path}, jobspec.Options{}, nil },
		Observe: func(*session.Run) session.Observers {
			return session.Observers{View: view, Sinks: []runner.Sink{seen}}
		},
	})
	defer r.Close()
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	if r.NothingToRun() {
		t.Fatal("the run has nothing to run")
	}
	res, err := r.Execute()
	if err != nil || batches.ExitOf(res, false) != batches.ExitDone {
		t.Errorf("got %v, %+v\n%s", err, res, view)
	}
	if want := []string{"a succeeded", "b succeeded"}; !slices.Equal(seen.jobs, want) {
		t.Errorf("got ends %q, want %q\n%s", seen.jobs, want, view)
	}
	if out, err := os.ReadFile(filepath.Join(dir, "b.out")); err != nil || len(bytes.TrimSpace(out)) == 0 {
		t.Errorf("b.out: got %q, %v", out, err)
	}
}
