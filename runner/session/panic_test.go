package session

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local"
	"gpurun/state/disk"
)

func TestPanicExits70WithReport(t *testing.T) {
	var said, log bytes.Buffer
	a := &Process{Err: &said, Done: make(chan int, 1), runLog: &log}
	a.Say = func(kind, text string) { fmt.Fprintf(&said, "gpurun: %s: %s\n", kind, text) }
	forever := make(chan struct{})
	defer close(forever)
	code := a.Guard(func() int {
		a.Go(func() { panic("a goroutine fails") })
		<-forever
		return 0
	})
	if code != batches.ExitInternal {
		t.Errorf("got exit status %d, want %d", code, batches.ExitInternal)
	}
	for _, want := range []string{"internal error: a goroutine fails", "panic_test.go", "running jobs continue"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, said.String())
		}
	}
	if !strings.Contains(log.String(), "panic: a goroutine fails") {
		t.Errorf("run.log lacks the panic: %q", log.String())
	}
}

// Packages that get a function for starting goroutines must use it, since it catches panics.
func TestAllGoroutinesCatchPanics(t *testing.T) {
	dir, started := t.TempDir(), 0
	count := func(f func()) {
		started++
		go f()
	}
	more := func(what string) {
		t.Helper()
		if started == 0 {
			t.Errorf("%s does not start its goroutines with the given function", what)
		}
		started = 0
	}
	s, err := disk.Open([]string{filepath.Join(dir, "jobs.yaml")}, disk.Options{Go: count})
	if err != nil {
		t.Fatal(err)
	}
	more("state/disk")
	srv, err := control.Listen(s.Dir(0), make(chan *control.Call), count)
	if err != nil {
		t.Fatal(err)
	}
	more("runner/control")
	engine, err := local.Kind{}.Open(engine.Config{Go: count})
	if err != nil {
		t.Fatal(err)
	}
	more("runner/engine/local")
	for what, err := range map[string]error{"engine": engine.Close(), "control": srv.Close(), "state": s.Close()} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
