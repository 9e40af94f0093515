package jobspec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/sys/unix"
)

func namesOf(b *Batch) string {
	var names []string
	for _, j := range b.Jobs {
		names = append(names, j.Name)
	}
	return strings.Join(names, " ")
}

func TestMatrixExpandsInOrder(t *testing.T) {
	for _, test := range []struct{ name, job, want string }{
		{"product, last fastest", "matrix: {a: [x, y], b: [1, 2]}", "j-x-1 j-x-2 j-y-1 j-y-2"},
		{"ranges", "matrix: {a: 8..11}", "j-8 j-9 j-10 j-11"},
		{"padded", "matrix: {a: 08..10}", "j-08 j-09 j-10"},
		{"downwards", "matrix: {a: 1..-1}", "j-1 j-0 j--1"},
		{"steps", "matrix: {a: 0..1..0.25}", "j-0 j-0.25 j-0.5 j-0.75 j-1"},
		{"range as an element", "matrix: {a: [0..2, 7, \"0..9\"]}", "j-0 j-1 j-2 j-7 j-0..9"},
		{"as spelled", "matrix: {a: [007, 1e-5, 0.10]}", "j-007 j-1e-5 j-0.10"},
		{"exclude by value", "matrix: {a: [1e-5, 1], exclude: [{a: 0.00001}]}", "j"},
		{"exclude in part", "matrix: {a: [1, 2], b: [x, y], exclude: [{a: 1}]}", "j-2-x j-2-y"},
		{"include adds a job", "matrix: {a: [1], b: [x], include: [{a: 2, b: y}]}", "j-1-x j-2-y"},
		{"include extends", "matrix: {a: [1, 2], include: [{a: 2, c: z}]}", "j-1 j-2-z"},
		{"include in part", "matrix: {a: [1, 2], b: [x], include: [{a: 3}, {a: 2, c: z}]}", "j-1-x j-2-x-z j-3"},
		{"empty zip", "zip: {}", "j"},
		{"zip", "zip: {a: [1, 2], b: [x, y]}", "j-1-x j-2-y"},
		{"zip and matrix", "matrix: {m: [p, q]}\n    zip: [{a: [1, 2], b: [x, y]}]", "j-p-1-x j-p-2-y j-q-1-x j-q-2-y"},
		{"values unfit for names", "matrix: {a: [a b, c/d]}", "j-a_b j-c_d"},
		{"values that differ only in such characters", "matrix: {a: [a b, a-b, a;b]}", "j-a_b-c8687a08 j-a-b j-a_b-5719af18"},
		{"params", "params: {a: 1}", "j"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := mustLoad(t, writeJobFile(t, "jobs.yaml", "jobs:\n  - name: j\n    run: x\n    "+test.job+"\n"))
			if got := namesOf(b); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Loading must neither block nor read a huge file, whatever the path refers to.
func TestUnreadableFilesFailImmediately(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(at("fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(at("large.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil { // one line of 1 GiB, sparse
		t.Fatal(err)
	}
	f.Close()
	for _, test := range []struct{ path, want string }{
		{at("missing.yaml"), "no such file"},
		{dir, "is a folder, not a job file"},
		{at("fifo.yaml"), "is not a regular file"},
		{"/dev/zero", "is not a regular file"},
		{at("large.yaml"), "is 1024 MiB; the limit"},
	} {
		b, problems := load([]string{test.path}, Options{})
		if b != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].Text, test.want) {
			t.Errorf("%s: got %v, want %q", test.path, problems, test.want)
		}
	}
}

func TestBOMAndCRLFAreAccepted(t *testing.T) {
	for name, content := range map[string]string{
		"byte order mark": "\ufeffjobs:\n  - run: echo a\n",
		"CRLF":            "jobs:\r\n  - run: |\r\n      echo a\r\n",
		"no last newline": "jobs:\n  - run: echo a",
	} {
		b := mustLoad(t, writeJobFile(t, "jobs.yaml", content))
		r, err := b.Render(&b.Jobs[0], Runtime{})
		if err != nil || strings.TrimSpace(r.Commands[0]) != "echo a" || strings.Contains(r.Commands[0], "\r") {
			t.Errorf("%s: the command is %q, %v", name, r.Commands, err)
		}
	}
}

func TestFlagsOverrideFilesWhichOverrideUserConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := write("a.yaml", "settings: {poll: 7s, max_util: 40}\njobs: [{run: x}]\n")
	c := write("c.yaml", "settings: {poll: 8s}\njobs: [{run: y}]\n")
	user := write("user.yaml", "poll: 9s\nmax_util: 50\nreserve: 1\n")
	b, problems := load([]string{a}, Options{UserConfig: user, Flags: map[string]string{"poll": "60", "min-memory": "9000"}})
	if b == nil {
		t.Fatal(problemText(problems))
	}
	s := b.Settings
	if s.Poll != time.Minute || s.MaxUtil != 40 || s.Reserve != 1 || s.MinMemory.String() != "9000MiB" {
		t.Errorf("got poll %s, max_util %d, reserve %d, min_memory %s", s.Poll, s.MaxUtil, s.Reserve, s.MinMemory)
	}
	if _, problems = load([]string{a, c}, Options{}); len(problems) != 1 || !strings.Contains(problems[0].Text, a) || problems[0].File != c {
		t.Errorf("two files with different settings: got %v, want one problem", problems)
	}
	if b, problems = load([]string{a, c}, Options{Flags: map[string]string{"poll": "5s"}}); b == nil {
		t.Errorf("a flag overrides both files, but got %v", problems)
	}
	user = write("user.yaml", "settings: {poll: 9s}\n")
	want := user + `:1:1: unknown setting "settings"; move its keys up one level: this file contains only settings` + "\n"
	if _, problems = load([]string{a}, Options{UserConfig: user}); problemText(problems) != want {
		t.Errorf("got %s, want %s", problemText(problems), want)
	}
}

func TestSmallSizeWithoutUnitIsWarnedAbout(t *testing.T) {
	path := writeJobFile(t, "jobs.yaml", "jobs: [{run: x}]\n")
	for text, want := range map[string]string{"8": "--min-memory: 8 means 8MiB, which nearly every GPU has free; if you mean GiB, write 8GiB", "8000": "", "8MiB": "", "0": ""} {
		b, problems := load([]string{path}, Options{Flags: map[string]string{"min-memory": text}})
		if b == nil {
			t.Fatal(problemText(problems))
		}
		if got := strings.TrimSpace(problemText(b.Warnings)); got != want {
			t.Errorf("%s: got the warning %q, want %q", text, got, want)
		}
	}
}

func TestNeedsMayNameJobsInAnotherFile(t *testing.T) {
	dir := t.TempDir()
	a, c := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "c.yaml")
	for path, content := range map[string]string{
		a: "jobs: [{name: train-1, run: x}, {name: train-2, run: x2}]\n",
		c: "jobs: [{name: own, run: y}, {name: last, run: z, needs: [\"a.yaml:train-*\", own]}]\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	b := mustLoad(t, a, c)
	if got := b.Jobs[3].Needs; len(got) != 3 || got[0] != 0 || got[1] != 1 || got[2] != 2 {
		t.Errorf("got needs %v, want [0 1 2]", got)
	}
}

// load calls Load and returns its problems as a list.
func load(paths []string, opts Options) (b *Batch, problems []Problem) {
	b, err := Load(paths, opts)
	var all *multierror.Error
	errors.As(err, &all)
	if all != nil {
		for _, err := range all.Errors {
			problems = append(problems, err.(Problem))
		}
	}
	return b, problems
}
