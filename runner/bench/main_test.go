package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/cli"
)

// The test binary is the program that is measured, its keeper, the child that
// fills a ledger, and the loop that keeps no records.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "run", "gpus", "--help", "__keeper", "__probe":
			os.Exit(cli.Main(os.Args[1:]))
		case fillCommand, bareCommand:
			os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

// tiny is a bench with few of everything. Its tests look at what is measured and
// at what is left behind, never at how long it took.
func tiny(t *testing.T) *bench {
	t.Helper()
	b := quiet()
	var err error
	if b.gpurun, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	b.dir, b.rounds, b.jobs, b.few, b.many, b.handOvers = t.TempDir(), 1, 20, 50, 200, 4
	t.Setenv("GPURUN_SIM_HERE", "1")
	t.Setenv("GPURUN_CLAIMS_DIR", b.folder("claims"))
	return b
}

// figuresOf are the rows' first column.
func figuresOf(b *bench) []string {
	var list []string
	for _, r := range b.rows {
		list = append(list, r.figure)
	}
	return list
}

func wantFigures(t *testing.T, b *bench, want ...string) {
	t.Helper()
	if got := figuresOf(b); !slices.Equal(got, want) {
		t.Errorf("got the rows %q, want %q", got, want)
	}
}

func TestCommandLine(t *testing.T) {
	here := filepath.Join(t.TempDir(), "none")
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no gpurun", []string{"-gpurun", here, "-only", "6"}, 1, "run make build first"},
		{"no such figure", []string{"-only", "2,7"}, 1, `there is no figure "7"`},
		{"an empty figure", []string{"-only", "2,"}, 1, `there is no figure ""`},
		{"no such flag", []string{"-round", "1"}, 2, "-round"},
		{"a word too many", []string{"2"}, 2, ""},
		{"fill what is not there", []string{fillCommand, here, "jobs.yaml", "3"}, 1, "bench:"},
		{"so many shells", []string{bareCommand, "many"}, 1, "bench:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, said bytes.Buffer
			if code := run(tt.args, &out, &said); code != tt.code || !strings.Contains(said.String(), tt.says) || out.Len() > 0 {
				t.Errorf("got %d, %q, %q, want %d, %q", code, said.String(), out.String(), tt.code, tt.says)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	all, err := choose("")
	if err != nil || !all("1") || !all("6") {
		t.Errorf("all: %v", err)
	}
	some, err := choose("2,5")
	if err != nil || some("1") || !some("2") || some("4") || !some("5") {
		t.Errorf("2,5: %v", err)
	}
}

// Each job file has the jobs that its figure speaks of, and asks for what it says.
func TestJobFiles(t *testing.T) {
	for _, tt := range []struct {
		name, text     string
		jobs, gpus, at int
	}{
		{"CPU jobs", jobFile(5000, 0, 2), 5000, 0, 2},
		{"GPU jobs", jobFile(300, 1, 8), 300, 1, 8},
		{"hand-overs", strings.ReplaceAll(gapFile, "%%", "%"), 208, 1, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := write(dir, "jobs.yaml", strings.ReplaceAll(tt.text, "1..%d", "1.."+strconv.Itoa(tt.jobs))); err != nil {
				t.Fatal(err)
			}
			b, problems := jobspec.Load([]string{filepath.Join(dir, "jobs.yaml")}, jobspec.Options{})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			spec := b.Jobs[0].Spec
			if len(b.Jobs) != tt.jobs || spec.Request.Min != tt.gpus || b.Settings.MaxConcurrent != tt.at || len(b.Warnings) > 0 {
				t.Errorf("%d jobs of %d GPUs, %d at once, warnings %v; want %+v", len(b.Jobs), spec.Request.Min, b.Settings.MaxConcurrent, b.Warnings, tt)
			}
		})
	}
}

func TestStartUp(t *testing.T) {
	b := tiny(t)
	if err := b.startUp(); err != nil {
		t.Fatal(err)
	}
	wantFigures(t, b, "6 gpurun --help", "6 gpurun gpus --sim 8x80GiB")
}

func TestWaiting(t *testing.T) {
	b := tiny(t)
	w, err := b.startWaiting(300 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	err = b.endWaiting(w, 100*time.Millisecond)
	w.stop()
	if err != nil {
		t.Fatal(err)
	}
	if got := figuresOf(b); len(got) != 2 || !strings.HasPrefix(got[0], "4 waiting, 0 s") || got[1] != "4 growth of its memory" {
		t.Errorf("got the rows %q", got)
	}
	if err := b.endWaiting(w, 0); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got %v after its end", err)
	}
}
