package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/state"
)

// started returns the inputs and start time of a job that starts after they were written.
func started(t *testing.T, dir string, patterns ...string) (in []state.Input, start time.Time) {
	t.Helper()
	in, err := Inputs(context.Background(), absolute(dir, patterns))
	if err != nil {
		t.Fatal(err)
	}
	return in, time.Now()
}

func absolute(dir string, patterns []string) []string {
	var out []string
	for _, p := range patterns {
		out = append(out, filepath.Join(dir, p))
	}
	return out
}

// rewrite changes a file and sets its time, because the clock's resolution may hide the change.
func rewrite(t *testing.T, path, content string, age time.Duration) {
	t.Helper()
	write(t, path, content)
	at := time.Now().Add(age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestInputsRecordContent(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "data.csv"), "abc")
	in, _ := started(t, dir, "data.csv")
	info, err := os.Stat(filepath.Join(dir, "data.csv"))
	if err != nil {
		t.Fatal(err)
	}
	want := state.Input{
		Path: filepath.Join(dir, "data.csv"), Size: 3, MTime: info.ModTime().UTC(),
		Hash: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	}
	if len(in) != 1 || in[0] != want {
		t.Errorf("got %+v, want %+v", in, want)
	}
	for _, missing := range []string{"none.csv", "*.json"} {
		if _, err := Inputs(context.Background(), absolute(dir, []string{missing})); err == nil {
			t.Errorf("%s: got no error", missing)
		}
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Inputs(done, absolute(dir, []string{"data.csv"})); err == nil {
		t.Error("got no error after the run was cancelled")
	}
}

func TestManyInputsFitTheLedger(t *testing.T) {
	dir := t.TempDir()
	for i := range maxListed + 1 {
		write(t, filepath.Join(dir, "img", fmt.Sprint(i, ".png")), "x")
	}
	in, _ := started(t, dir, "img/*.png")
	if len(in) != 1 || in[0].Size != maxListed+1 || in[0].Hash == "" {
		t.Errorf("got %d inputs, want one that stands for all of them", len(in))
	}
}

func TestChangedInputIsFound(t *testing.T) {
	for _, row := range []struct {
		name    string
		pattern string
		change  func(t *testing.T, dir string)
		want    string
	}{
		{"unchanged", "data/*.csv", func(*testing.T, string) {}, ""},
		{"touched", "data/*.csv", func(t *testing.T, dir string) { rewrite(t, dir+"/data/a.csv", "a", time.Hour) }, ""},
		{"changed", "data/*.csv", func(t *testing.T, dir string) { rewrite(t, dir+"/data/a.csv", "b", time.Hour) }, "data/a.csv"},
		{"deleted", "data/*.csv", func(t *testing.T, dir string) { os.Remove(dir + "/data/a.csv") }, ""},
		{"new file added", "data/*.csv", func(t *testing.T, dir string) { rewrite(t, dir+"/data/z.csv", "z", time.Hour) }, "data/z.csv"},
		{"old file added", "data/*.csv", func(t *testing.T, dir string) { rewrite(t, dir+"/data/z.csv", "z", -time.Hour) }, ""},
		{"a folder, changed within", "data", func(t *testing.T, dir string) { rewrite(t, dir+"/data/deep/c.csv", "x", time.Hour) }, "data"},
		{"a folder, touched within", "data", func(t *testing.T, dir string) { rewrite(t, dir+"/data/deep/c.csv", "c", time.Hour) }, ""},
		{"many, one changed", "many/*", func(t *testing.T, dir string) { rewrite(t, dir+"/many/7", "x", time.Hour) }, "many/*"},
		{"many, one touched", "many/*", func(t *testing.T, dir string) { rewrite(t, dir+"/many/7", "7", time.Hour) }, ""},
		{"large, touched", "large", func(t *testing.T, dir string) { sparse(t, dir+"/large", maxHashed+1, time.Hour) }, "large"},
		{"large, unchanged", "large", func(t *testing.T, dir string) {}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/data/a.csv", "a")
			write(t, dir+"/data/b.csv", "b")
			write(t, dir+"/data/deep/c.csv", "c")
			for i := range maxListed + 1 {
				write(t, fmt.Sprint(dir, "/many/", i), fmt.Sprint(i))
			}
			sparse(t, dir+"/large", maxHashed+1, -time.Hour)
			in, start := started(t, dir, row.pattern)
			row.change(t, dir)
			w := &checker{search: newSearch()}
			got, _ := w.changedInput(absolute(dir, []string{row.pattern}), &state.Record{Fact: state.Fact{Inputs: in}, Start: start})
			if got = strings.TrimPrefix(got, dir+"/"); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func sparse(t *testing.T, path string, size int64, age time.Duration) {
	t.Helper()
	write(t, path, "")
	at := time.Now().Add(age)
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestMovingFolderChangesNoInput(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old")
	write(t, old+"/data.csv", "a")
	in, start := started(t, old, "data.csv")
	moved := filepath.Join(t.TempDir(), "new")
	rewrite(t, moved+"/data.csv", "a", time.Hour)
	w := &checker{search: newSearch()}
	r := &state.Record{Fact: state.Fact{Inputs: in}, Start: start}
	if got, _ := w.changedInput([]string{moved + "/data.csv"}, r); got != "" {
		t.Errorf("got %q, want no change, because the content is the same", got)
	}
	rewrite(t, moved+"/data.csv", "b", 2*time.Hour)
	w = &checker{search: newSearch()}
	if got, _ := w.changedInput([]string{moved + "/data.csv"}, r); got == "" {
		t.Error("got no change, but the content differs")
	}
}
