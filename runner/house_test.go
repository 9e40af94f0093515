package runner

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mayImport lists the packages of this module that each package may import. Packages without an
// entry may import any but runner/cli.
var mayImport = map[string][]string{
	"gpurun":                            {"gpurun/runner/cli"},
	"gpurun/gpu":                        {},
	"gpurun/gpu/probe":                  {"gpurun/gpu", "gpurun/state/host"},
	"gpurun/gpu/claim":                  {"gpurun/gpu", "gpurun/state/host"},
	"gpurun/gpu/hostrules":              {"gpurun/gpu", "gpurun/jobspec/source", "gpurun/state/host"},
	"gpurun/jobspec":                    {"gpurun/gpu", "gpurun/jobspec/block", "gpurun/jobspec/configedit", "gpurun/jobspec/expand", "gpurun/jobspec/fold", "gpurun/jobspec/lint", "gpurun/jobspec/settings", "gpurun/jobspec/source"},
	"gpurun/jobspec/block":              {"gpurun/jobspec/settings", "gpurun/jobspec/source"},
	"gpurun/jobspec/settings":           {"gpurun/gpu", "gpurun/jobspec/lint", "gpurun/jobspec/source"},
	"gpurun/jobspec/configedit":         {"gpurun/jobspec/source"},
	"gpurun/jobspec/expand":             {"gpurun/jobspec/source"},
	"gpurun/jobspec/fold":               {"gpurun/jobspec/expand", "gpurun/jobspec/source"},
	"gpurun/jobspec/lint":               {"gpurun/jobspec/expand", "gpurun/jobspec/fold", "gpurun/jobspec/source", "gpurun/state/redact"},
	"gpurun/jobspec/source":             {"gpurun/gpu", "gpurun/state/host"},
	"gpurun/state":                      {"gpurun/gpu"},
	"gpurun/state/schema":               {"gpurun/gpu", "gpurun/state"},
	"gpurun/state/host":                 {},
	"gpurun/state/redact":               {},
	"gpurun/state/disk":                 {"gpurun/gpu", "gpurun/state", "gpurun/state/host"},
	"gpurun/runner/sched":               {"gpurun/gpu", "gpurun/jobspec", "gpurun/jobspec/source", "gpurun/runner/sched/prune", "gpurun/runner/sched/stall", "gpurun/state", "gpurun/state/schema"},
	"gpurun/runner/sched/prune":         {"gpurun/jobspec", "gpurun/state"},
	"gpurun/runner/sched/stall":         {"gpurun/gpu", "gpurun/jobspec", "gpurun/state"},
	"gpurun/runner/engine":              {"gpurun/gpu", "gpurun/state"},
	"gpurun/runner/batches":             {"gpurun/gpu", "gpurun/gpu/probe", "gpurun/jobspec", "gpurun/jobspec/source", "gpurun/runner", "gpurun/runner/control", "gpurun/runner/engine", "gpurun/runner/engine/cluster", "gpurun/runner/engine/cluster/gridengine", "gpurun/runner/engine/cluster/slurm", "gpurun/runner/engine/local", "gpurun/runner/engine/procs", "gpurun/runner/files", "gpurun/runner/results", "gpurun/runner/sched", "gpurun/runner/sched/prune", "gpurun/state", "gpurun/state/disk", "gpurun/state/host", "gpurun/state/redact", "gpurun/state/schema"},
	"gpurun/runner/session":             {"gpurun/gpu", "gpurun/gpu/claim", "gpurun/gpu/hostrules", "gpurun/gpu/probe", "gpurun/jobspec", "gpurun/runner", "gpurun/runner/batches", "gpurun/runner/codecopy", "gpurun/runner/control", "gpurun/runner/engine", "gpurun/runner/engine/cluster", "gpurun/runner/engine/procs", "gpurun/runner/files", "gpurun/runner/sched", "gpurun/state", "gpurun/state/disk", "gpurun/state/host", "gpurun/state/schema"},
	"gpurun/runner/capture":             {"gpurun/jobspec", "gpurun/jobspec/fold", "gpurun/jobspec/lint", "gpurun/jobspec/source", "gpurun/runner/engine", "gpurun/runner/engine/procs", "gpurun/state/redact"},
	"gpurun/runner/codecopy":            {"gpurun/runner/engine/procs", "gpurun/state/host"},
	"gpurun/runner/configcopy":          {"gpurun/state/host"},
	"gpurun/runner/engine/procs":        {"gpurun/state/host"},
	"gpurun/runner/engine/local":        {"gpurun/gpu", "gpurun/gpu/claim", "gpurun/state", "gpurun/state/host", "gpurun/runner/engine", "gpurun/runner/engine/procs", "gpurun/runner/engine/local/wire"},
	"gpurun/runner/engine/local/keeper": {"gpurun/runner/configcopy", "gpurun/gpu", "gpurun/gpu/claim", "gpurun/state", "gpurun/state/host", "gpurun/runner/engine", "gpurun/runner/engine/procs", "gpurun/runner/engine/local/wire"},
	"gpurun/runner/engine/local/wire":   {"gpurun/gpu", "gpurun/state", "gpurun/state/host", "gpurun/runner/engine", "gpurun/runner/engine/procs"},
	"gpurun/runner/control":             {"gpurun/gpu", "gpurun/state", "gpurun/state/host", "gpurun/state/schema"},
	"gpurun/runner/forecast":            {"gpurun/gpu", "gpurun/jobspec", "gpurun/state", "gpurun/runner/sched", "gpurun/state/schema"},
	"gpurun/runner/notify":              {"gpurun/jobspec", "gpurun/state", "gpurun/state/redact", "gpurun/state/schema"},
	"gpurun/runner/uniid":               {"gpurun/gpu", "gpurun/jobspec", "gpurun/state", "gpurun/state/schema"},
	"gpurun/runner/files":               {"gpurun/gpu", "gpurun/jobspec", "gpurun/state", "gpurun/state/host", "gpurun/runner/sched"},
	"gpurun/runner/report":              {"gpurun/gpu", "gpurun/jobspec", "gpurun/runner/results", "gpurun/state", "gpurun/state/redact", "gpurun/state/schema"},
	"gpurun/runner/results":             {"gpurun/jobspec", "gpurun/state", "gpurun/state/schema"},
	"gpurun/runner/web":                 {"gpurun/gpu", "gpurun/runner/results", "gpurun/state", "gpurun/state/redact", "gpurun/state/schema"},
	"gpurun/runner/agent":               {"gpurun/runner/results", "gpurun/state", "gpurun/state/redact", "gpurun/state/schema"},
	"gpurun/runner/terminal":            {"gpurun/gpu", "gpurun/jobspec", "gpurun/state", "gpurun/state/host", "gpurun/state/schema"},

	"gpurun/runner/engine/cluster":            {"gpurun/gpu", "gpurun/gpu/probe", "gpurun/state", "gpurun/state/host", "gpurun/runner/engine", "gpurun/runner/engine/procs", "gpurun/runner/engine/local/keeper", "gpurun/runner/engine/local/wire"},
	"gpurun/runner/engine/cluster/gridengine": {"gpurun/gpu", "gpurun/runner/engine", "gpurun/runner/engine/cluster"},
	"gpurun/runner/engine/cluster/slurm":      {"gpurun/gpu", "gpurun/runner/engine", "gpurun/runner/engine/cluster"},
}

// neverInPure lists packages that would make decisions nondeterministic or block them.
var neverInPure = []string{"os", "os/exec", "log", "sync", "math/rand", "math/rand/v2", "context", "net", "syscall"}

func TestImportsFollowArchitecture(t *testing.T) {
	imports := listImports(t)
	for pkg, deps := range imports {
		allowed, listed := mayImport[pkg]
		for _, d := range deps {
			if !strings.HasPrefix(d, "gpurun") {
				continue
			}
			switch {
			case d == "gpurun/runner/cli" && pkg != "gpurun":
				t.Errorf("%s imports %s: only main may", pkg, d)
			case listed && !contains(allowed, d):
				t.Errorf("%s imports %s: see docs/internals/architecture.md", pkg, d)
			}
		}
		for _, d := range deps {
			if d == "github.com/NVIDIA/go-nvml/pkg/nvml" && pkg != "gpurun/gpu/probe" {
				t.Errorf("%s imports go-nvml: only gpu/probe may", pkg)
			}
		}
	}
	for _, pkg := range []string{"gpurun/gpu", "gpurun/jobspec/fold", "gpurun/state", "gpurun/state/schema", "gpurun/runner/sched", "gpurun/runner/sched/prune", "gpurun/runner/sched/stall"} {
		for _, d := range imports[pkg] {
			if contains(neverInPure, d) {
				t.Errorf("%s imports %s: pure packages may not", pkg, d)
			}
		}
	}
}

func listImports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		f := strings.Fields(sc.Text())
		imports[f[0]] = f[1:]
	}
	if len(imports) < 10 {
		t.Fatalf("go list returned only %d packages", len(imports))
	}
	return imports
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// Other packages return an exit status instead.
func TestOnlyMainExits(t *testing.T) {
	eachSource(t, func(path string, src []byte) {
		if filepath.Base(path) != "main.go" && bytes.Contains(src, []byte("os.Exit(")) {
			t.Errorf("%s calls os.Exit", path)
		}
	})
}

// make check tests the packages in CALC without the race detector.
func TestPackagesWithoutRaceDetectorStartNoGoroutines(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	calc := regexp.MustCompile(`(?m)^CALC +:= (.*)$`).FindSubmatch(makefile)
	if err != nil || calc == nil {
		t.Fatalf("no CALC in the Makefile: %v", err)
	}
	starts, seen := regexp.MustCompile(`(?m)^\s*go \w|\.Go\(`), 0
	eachSource(t, func(path string, src []byte) {
		dir := "./" + filepath.Dir(strings.TrimPrefix(path, "../"))
		for _, p := range strings.Fields(string(calc[1])) {
			if tree, all := strings.CutSuffix(p, "/..."); dir == tree || all && strings.HasPrefix(dir, tree+"/") {
				if seen++; starts.Match(src) {
					t.Errorf("%s starts a goroutine: remove its package from CALC in the Makefile", path)
				}
			}
		}
	})
	if seen < 100 {
		t.Errorf("CALC covers only %d files, want at least 100", seen)
	}
}

func eachSource(t *testing.T, f func(path string, src []byte)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		f(path, src)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
