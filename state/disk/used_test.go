package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gpurun/state/host"
)

// used creates a batch's state and returns its entry for the list of used batches.
func used(t *testing.T, name string, at int) Used {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ledgerName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return Used{File: "/exp/" + name, Dir: dir, Host: Host().Host, Started: time.Unix(int64(at), 0).UTC()}
}

func files(list []Used) (names []string) {
	for _, u := range list {
		names = append(names, filepath.Base(u.File))
	}
	return names
}

func TestRememberedIsSortedByLastStart(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a, b := used(t, "a", 1), used(t, "b", 2)
	elsewhere := Used{File: "/exp/c", Dir: "/none", Host: "another", Started: time.Unix(9, 0).UTC()}
	if got := Remembered(); len(got) != 0 {
		t.Errorf("initially: got %v, want none", got)
	}
	if err := Remember(a, b, elsewhere); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(files(Remembered())); got != "[b a]" {
		t.Errorf("got %v, want [b a]", got)
	}
	a.Started = time.Unix(3, 0).UTC()
	if err := Remember(a); err != nil {
		t.Fatal(err)
	}
	if got := Remembered(); fmt.Sprint(files(got)) != "[a b]" || got[0] != a {
		t.Errorf("got %v", got)
	}
	if err := os.RemoveAll(b.Dir); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(files(Remembered())); got != "[a]" {
		t.Errorf("after b was removed: got %v, want [a]", got)
	}
	dir, _ := usedFolder()
	if got := readUsed(dir); len(got) != 2 || got[0].Host != "another" {
		t.Errorf("the list has %v, want a and the entry of another host", got)
	}
}

func TestBrokenListIsReplaced(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, _ := usedFolder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, usedName), []byte("{\n\x00\n{\"file\":\"x\"}\n[1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := used(t, "a", 1)
	if err := Remember(a); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(files(Remembered())); got != "[a]" {
		t.Errorf("got %v", got)
	}
}

func TestConcurrentRememberLosesNothing(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var all []Used
	for i := range 12 {
		all = append(all, used(t, fmt.Sprint("j", i), i))
	}
	var work sync.WaitGroup
	for _, u := range all {
		work.Add(1)
		go func() {
			defer work.Done()
			err := Remember(u)
			for errors.As(err, new(*host.HeldError)) { // a busy machine
				err = Remember(u)
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	work.Wait()
	if got := Remembered(); len(got) != len(all) {
		t.Errorf("%d of %d batches are remembered", len(got), len(all))
	}
}
