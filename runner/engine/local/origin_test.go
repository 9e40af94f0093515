package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// A record restores a start that the ledger has lost. However long the names are, the record keeps
// the job's key.
func TestStartIsRestoredFromRecord(t *testing.T) {
	for _, long := range []int{1, 300, 5000} {
		l := engine.Launch{
			Identity: engine.Identity{Job: strings.Repeat("j", long)}, Output: engine.Output{Stdout: strings.Repeat("l", long)},
			Key: "k", Needs: "n", Attempt: 3,
		}
		for i := range min(long, 256) {
			l.Grant.Indices = append(l.Grant.Indices, i)
			l.Grant.UUIDs = append(l.Grant.UUIDs, gpu.UUID(strings.Repeat("u", 40)))
		}
		dir := filepath.Join(t.TempDir(), "u")
		putRecord(t, dir, &wire.Record{State: wire.StateOpen, UniID: "u", Begun: 1, Roots: make([]procs.ID, 1), BootID: host.BootID(), Boot: 5, Of: wire.OriginOf(&l), End: state.End{Started: time.Now()}})
		found, err := Kind{}.Trace(dir, "u")
		start, run := found.Start, found.Run
		if err != nil || start.Kind != state.KindStart || start.Key != "k" || start.Needs != "n" || start.Attempt != 3 || run.Host == "" {
			t.Errorf("names of length %d: got start %+v, run %+v, %v", long, start, run, err)
		}
		if long == 1 && (start.Job != l.Job || start.Log != l.Stdout || !slices.Equal(start.GPUUUIDs, l.Grant.UUIDs)) {
			t.Errorf("got %+v", start)
		}
	}
}

// A record that identifies no job gives no start. While a process of the attempt is alive, this is
// an error, because it is unknown which job must not start a second time.
func TestUnknownRecordGivesNoStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "u")
	if got, err := (Kind{}).Trace(dir, "u"); err != nil || got.Began || got.Start.Kind != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	self, ok := procs.One(os.Getpid())
	if !ok {
		t.Fatal("this process is not listed")
	}
	putRecord(t, dir, &wire.Record{State: wire.StateOpen, UniID: "u", Begun: 1, Roots: []procs.ID{self.ID}})
	want := fmt.Sprintf("process %d runs ", os.Getpid())
	if _, err := (Kind{}).Trace(dir, "u"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want an error with this process", err)
	}
}
