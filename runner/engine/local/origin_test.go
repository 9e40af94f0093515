package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
	"gpurun/state/host"
)

// A record's origin comes back as the start that the ledger has lost. However long the
// names, the record keeps its length and its key.
func TestRecover(t *testing.T) {
	for _, long := range []int{1, 300, 5000} {
		l := engine.Launch{
			Identity: engine.Identity{Job: strings.Repeat("j", long)}, Output: engine.Output{Stdout: strings.Repeat("l", long)},
			Key: "k", Needs: "n", Attempt: 3,
		}
		for i := range min(long, 256) {
			l.Grant.Indices = append(l.Grant.Indices, i)
			l.Grant.UUIDs = append(l.Grant.UUIDs, gpu.UUID(strings.Repeat("u", 40)))
		}
		dir := t.TempDir()
		r := &wire.Record{State: wire.StateOpen, UniID: "u", Started: time.Now(), BootID: host.BootID(), Boot: 5, Of: wire.OriginOf(&l)}
		f, err := wire.CreateRecord(dir, r)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.WriteFile(wire.Marker(dir, 0), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		found, err := Kind{}.Trace(dir, "u")
		start, run := found.Start, found.Run
		if err != nil || start.Kind != state.KindStart || start.Key != "k" || start.Needs != "n" || start.Attempt != 3 || run.Host == "" {
			t.Errorf("%d: got %+v %+v %v", long, start, run, err)
		}
		if long == 1 && (start.Job != l.Job || start.Log != l.Stdout || !slices.Equal(start.GPUUUIDs, l.Grant.UUIDs)) {
			t.Errorf("got %+v", start)
		}
	}
}

// A record that identifies no job yields no start. While a process of the attempt is
// alive that is an error, since nobody knows which job must not be started next to it.
func TestRecoverUnknown(t *testing.T) {
	dir := t.TempDir()
	if got, err := (Kind{}).Trace(dir, "u"); err != nil || got.Began || got.Start.Kind != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "begun"), stat, 0o644); err != nil {
		t.Fatal(err)
	}
	var unknown *UnknownError
	if _, err := (Kind{}).Trace(dir, "u"); !errors.As(err, &unknown) || unknown.PID != os.Getpid() {
		t.Errorf("got %v", err)
	}
}
