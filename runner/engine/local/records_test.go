package local

import (
	"os"
	"path/filepath"
	"testing"

	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// putRecord writes a record to a journal next to an attempt's folder dir, as a keeper does.
func putRecord(t *testing.T, dir string, r *wire.Record) {
	t.Helper()
	r.Slot.Journal = filepath.Join(filepath.Dir(dir), "run"+state.JournalSuffix)
	f, err := os.OpenFile(r.Slot.Journal, os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		err = r.Put(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// oldRecord writes a record, and a marker for each command that has begun, to the attempt's folder,
// as keepers of version 1 did.
func oldRecord(t *testing.T, dir string, r *wire.Record, markers ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{wire.StatusFile: string(r.Encode())}
	for i, m := range markers {
		files[[]string{"begun", "begun.2"}[i]] = m
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
