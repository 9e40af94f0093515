package uniid

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/jobspec"
	"gpurun/state"
)

func plain(f func()) { go f() }

type content map[string]map[string]any

func load(t *testing.T, path string) content {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c content
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	return c
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, got, want content) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// kept returns a maintainer of a file with the given text, in a new folder.
func kept(t *testing.T, text string) (*maintainer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "uni_id.json")
	if text != "" {
		write(t, path, text)
	}
	k := newMaintainer(path)
	t.Cleanup(k.close)
	return k, path
}

func (k *maintainer) set(uniID string, e entry) error {
	k.put(uniID, e)
	return k.flush()
}

func TestMergeKeepsEntriesOfScripts(t *testing.T) {
	running := map[string]entry{"u1": {PID: 7, State: running}}
	failed := map[string]entry{"u1": {PID: 7, State: abnormal, RetryCount: 2, ErrorType: "oom"}}
	fresh := map[string]any{"pid": 7., "state": "running", "retry_count": 0.}
	for _, row := range []struct {
		name, before string
		mine         map[string]entry
		want         content
	}{
		{"no file", "", running, content{"u1": fresh}},
		{"other entries stay", `{"x":{"state":"running","note":[1]}}`, running, content{"x": {"state": "running", "note": []any{1.}}, "u1": fresh}},
		{"other fields stay", `{"u1":{"loss":0.5}}`, running, content{"u1": {"loss": 0.5, "pid": 7., "state": "running", "retry_count": 0.}}},
		{"the script's pid stays", `{"u1":{"pid":99,"state":"running"}}`, running, content{"u1": {"pid": 99., "state": "running", "retry_count": 0.}}},
		{"the script's exit state stays", `{"u1":{"pid":99,"state":"normal_exit"}}`, running, content{"u1": {"pid": 99., "state": "normal_exit", "retry_count": 0.}}},
		{"the script's error type stays", `{"u1":{"state":"abnormal_exit","error_type":"nan_loss"}}`, failed, content{"u1": {"pid": 7., "state": "abnormal_exit", "retry_count": 2., "error_type": "nan_loss"}}},
		{"a null error type is filled in", `{"u1":{"state":"abnormal_exit","error_type":null}}`, failed, content{"u1": {"pid": 7., "state": "abnormal_exit", "retry_count": 2., "error_type": "oom"}}},
		{"an end replaces running", `{"u1":{"pid":99,"state":"running"}}`, failed, content{"u1": {"pid": 99., "state": "abnormal_exit", "retry_count": 2., "error_type": "oom"}}},
		{"an invalid entry is replaced", `{"u1":"running"}`, running, content{"u1": fresh}},
	} {
		t.Run(row.name, func(t *testing.T) {
			text, changed, err := merge([]byte(row.before), row.mine, nil)
			if err != nil || !changed {
				t.Fatalf("got changed %v, %v", changed, err)
			}
			var got content
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			equal(t, got, row.want)
			if _, again, err := merge(text, row.mine, nil); again || err != nil {
				t.Errorf("second merge: got changed %v, %v", again, err)
			}
		})
	}
	for _, broken := range []string{`{"u1":`, `[]`, `null`, `{}{}`} {
		if _, _, err := merge([]byte(broken), running, nil); err == nil {
			t.Errorf("%s: got no error", broken)
		}
	}
}

func TestInvalidFileIsNotOverwritten(t *testing.T) {
	const half = `{"other": {"state": "runn`
	k, path := kept(t, half)
	if err := k.set("u1", entry{0, normal, 0, ""}); !errors.Is(err, errBusy) {
		t.Fatalf("got %v, want errBusy", err)
	}
	if b, _ := os.ReadFile(path); string(b) != half {
		t.Fatalf("got %q, want it untouched", b)
	}
	write(t, path, `{"other": {"state": "running"}}`)
	if err := k.flush(); err != nil {
		t.Fatal(err)
	}
	equal(t, load(t, path), content{"other": {"state": "running"}, "u1": {"state": "normal_exit", "retry_count": 0.}})
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o640 {
		t.Errorf("got mode %v, want it unchanged", info.Mode())
	}
}

func TestEntryOverwrittenByScriptIsRestored(t *testing.T) {
	k, path := kept(t, "")
	if err := k.set("u1", entry{7, abnormal, 1, "exit"}); err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"its own": {"state": "running"}}`)
	if err := k.flush(); err != nil {
		t.Fatal(err)
	}
	equal(t, load(t, path), content{
		"its own": {"state": "running"},
		"u1":      {"pid": 7., "state": "abnormal_exit", "retry_count": 1., "error_type": "exit"},
	})
}

func TestUpdateWaitsForScriptLock(t *testing.T) {
	for _, kind := range []string{"flock", "lockf"} {
		t.Run(kind, func(t *testing.T) {
			k, path := kept(t, `{"other": {"state": "running"}}`)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if kind == "flock" {
				err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			} else {
				err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := k.set("u1", entry{7, running, 0, ""}); !errors.Is(err, errBusy) {
				t.Fatalf("got %v, want errBusy", err)
			}
			unlock(f)
			if err := k.flush(); err != nil {
				t.Fatal(err)
			}
			before, _ := f.Stat()
			if after, _ := os.Stat(path); !os.SameFile(before, after) {
				t.Error("the file was replaced, so scripts would lock the old one")
			}
			equal(t, load(t, path), content{
				"other": {"state": "running"}, "u1": {"pid": 7., "state": "running", "retry_count": 0.},
			})
		})
	}
}

func TestWriteToReplacedFileIsKept(t *testing.T) {
	k, path := kept(t, `{"u1": {"pid": 7, "state": "running"}}`)
	script, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	if err := k.set("u2", entry{8, running, 0, ""}); err != nil {
		t.Fatal(err)
	}
	if _, err := script.WriteAt([]byte(`{"u1": {"pid": 7, "state": "normal_exit"}}`), 0); err != nil {
		t.Fatal(err)
	}
	if err := k.flush(); err != nil {
		t.Fatal(err)
	}
	equal(t, load(t, path), content{
		"u1": {"pid": 7., "state": "normal_exit"}, "u2": {"pid": 8., "state": "running", "retry_count": 0.},
	})
}

// Scripts may replace the file without a lock while gpurun does the same. No entry may be lost.
func TestScriptsWithoutLockLoseNoEntry(t *testing.T) {
	k, path := kept(t, `{}`)
	const entries = 150
	want := content{}
	var script sync.WaitGroup
	script.Go(func() {
		for i := range entries {
			c := load(t, path)
			c[fmt.Sprint("s", i)] = map[string]any{"state": "normal_exit"}
			text, _ := json.Marshal(c)
			write(t, path+".script", string(text))
			if err := os.Rename(path+".script", path); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range entries {
		id := fmt.Sprint("u", i)
		if err := k.set(id, entry{0, normal, 0, ""}); err != nil && !errors.Is(err, errBusy) {
			t.Fatal(err)
		}
		want[id] = map[string]any{"state": "normal_exit", "retry_count": 0.}
		want[fmt.Sprint("s", i)] = map[string]any{"state": "normal_exit"}
	}
	script.Wait()
	for range 2 {
		if err := k.flush(); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, load(t, path), want)
}

func TestSinkKeepsFileComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "uni_id.json")
	s := New(&jobspec.Batch{
		Files: []jobspec.File{{UniID: path}, {}},
		Jobs:  []jobspec.Job{{File: 0}, {File: 1}},
	}, plain)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() { readUntil(t, path, stop) })
	}
	want := content{}
	for i := range 200 {
		id := fmt.Sprint("u", i)
		s.Fact(0, state.Fact{Kind: state.KindRunning, UniID: id, PID: 100 + i, Attempt: 3})
		end := state.Fact{Kind: state.KindEnd, UniID: id, State: state.Succeeded, Attempt: 3}
		want[id] = map[string]any{"pid": float64(100 + i), "state": normal, "retry_count": 2.}
		if i%2 == 1 {
			end.State, end.ErrorType = state.OOM, state.ErrOOM
			want[id]["state"], want[id]["error_type"] = abnormal, "oom"
		}
		s.Fact(0, end)
	}
	s.Fact(0, state.Fact{Kind: state.KindStart, UniID: "start"})
	s.Fact(-1, state.Fact{Kind: state.KindEnd, UniID: "no such job", State: state.Succeeded})
	s.Fact(1, state.Fact{Kind: state.KindEnd, UniID: "of another dialect", State: state.Succeeded})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	readers.Wait()
	equal(t, load(t, path), want)
}

// readUntil reads the file without a lock until stop, and checks that it is always valid JSON.
func readUntil(t *testing.T, path string, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if text, err := os.ReadFile(path); err == nil && !json.Valid(text) {
			t.Errorf("a reader got %q", text)
			return
		}
	}
}

func TestSinkWritesDuringRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "uni_id.json")
	s := New(&jobspec.Batch{Files: []jobspec.File{{UniID: path}}, Jobs: []jobspec.Job{{}}}, plain)
	s.Fact(0, state.Fact{Kind: state.KindRunning, UniID: "u", PID: 5, Attempt: 1})
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("nothing was written within a minute")
		}
	}
	equal(t, load(t, path), content{"u": {"pid": 5., "state": "running", "retry_count": 0.}})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"u1":{"pid":1,"state":"running"},"x":{}}`))
	f.Add([]byte(`{"u1":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		before, err := parse(data)
		text, _, mergeErr := merge(data, map[string]entry{"u1": {PID: 3, State: normal}}, nil)
		if (err == nil) != (mergeErr == nil) {
			t.Fatalf("parse: %v, merge: %v; want both or neither to fail", err, mergeErr)
		}
		if err != nil {
			return
		}
		after, err := parse(text)
		if err != nil {
			t.Fatalf("%q became %q: %v", data, text, err)
		}
		for id := range before {
			if _, there := after[id]; !there {
				t.Errorf("merge lost entry %q", id)
			}
		}
	})
}
