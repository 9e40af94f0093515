package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/state/disk"
)

// slowly is a standard output that blocks for two seconds at each write.
type slowly struct{ got strings.Builder }

func (s *slowly) Write(text []byte) (int, error) {
	time.Sleep(2 * time.Second)
	return s.got.Write(text)
}

func TestWatchPrintsEveryEndToSlowReader(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	ledger := filepath.Join(disk.Folder(file, ""), "ledger.jsonl")
	if err := os.MkdirAll(filepath.Dir(ledger), 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "jobs: [{name: a, gpus: 0, run: x}]\n")
	write(ledger, "")
	synctest.Test(t, func(t *testing.T) {
		a, out := newApp(), &slowly{}
		a.out = out
		ref, err := a.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		show := a.changes(ref)
		write(ledger, `{"kind":"end","time":"2026-11-23T20:00:00Z","job":"a","uni_id":"u","attempt":1,"state":"succeeded","exit_code":0,"seconds":1}`+"\n")
		if err := show(nil, ""); err != nil || !strings.Contains(out.got.String(), "succeeded   a: 1s") {
			t.Errorf("got %q, %v, want the end of a", out.got.String(), err)
		}
	})
}
