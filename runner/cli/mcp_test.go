package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gpurun/state"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// An mcpSession is a session of the official MCP client with gpurun mcp.
type mcpSession struct {
	t *testing.T
	*mcp.ClientSession
	dir   string // the root
	tools map[string]*mcp.Tool
}

// openMCP starts gpurun mcp in a folder.
func openMCP(t *testing.T, dir string, args ...string) *mcpSession {
	t.Helper()
	cmd := exec.Command(gpurunCopy(t), append([]string{"mcp"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GPURUN_CLAIMS_DIR="+dir, "HOME="+filepath.Dir(dir), "XDG_CONFIG_HOME="+filepath.Join(filepath.Dir(dir), "config"),
		"GPURUN_SIM=2x24GiB", "GPURUN_SIM_HERE=1", "MY_SECRET_TOKEN=hunter2", "GPURUN_STATE_DIR=")
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cs, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	s := &mcpSession{t: t, ClientSession: cs, dir: dir, tools: map[string]*mcp.Tool{}}
	for tool, err := range cs.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.tools[tool.Name] = tool
	}
	return s
}

// gpurunCopy returns the path of a link or copy of the test binary. gpurun mcp starts gpurun by its
// own path, so a symbolic link would not do.
func gpurunCopy(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "gpurun")
	if os.Link(exe, path) == nil {
		return path
	}
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err != nil || to.Close() != nil {
		t.Fatal("cannot copy the test binary: ", err)
	}
	return path
}

type arguments = map[string]any

// raw calls a tool without checking the result.
func (s *mcpSession) raw(tool string, args arguments) *mcp.CallToolResult {
	s.t.Helper()
	res, err := s.CallTool(s.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		s.t.Fatalf("%s: %v", tool, err)
	}
	return res
}

// call calls a tool that must succeed, and checks its output against the schema.
func (s *mcpSession) call(tool string, args arguments, out any) {
	s.t.Helper()
	res := s.raw(tool, args)
	if res.IsError {
		s.t.Fatalf("%s %v: %s", tool, args, res.Content[0].(*mcp.TextContent).Text)
	}
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		s.t.Fatal(err)
	}
	spec, err := json.Marshal(s.tools[tool].OutputSchema)
	if err != nil {
		s.t.Fatal(err)
	}
	var sch jsonschema.Schema
	if err := json.Unmarshal(spec, &sch); err != nil {
		s.t.Fatal(err)
	}
	resolved, err := sch.Resolve(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(b, &value); err != nil {
		s.t.Fatal(err)
	}
	if err := resolved.Validate(value); err != nil {
		s.t.Errorf("%s: its output does not match its schema: %v\n%s", tool, err, b)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			s.t.Fatal(err)
		}
	}
}

// refused calls a tool that must fail, and returns the first problem and the whole text.
func (s *mcpSession) refused(tool string, args arguments) (schema.Problem, string) {
	s.t.Helper()
	res := s.raw(tool, args)
	text := res.Content[0].(*mcp.TextContent).Text
	if !res.IsError {
		s.t.Fatalf("%s %v: got no error: %s", tool, args, text)
	}
	var doc schema.Problems
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Problems) == 0 || res.StructuredContent != nil {
		s.t.Fatalf("%s %v: the error is not a list of problems: %v: %s", tool, args, err, text)
	}
	return doc.Problems[0], text
}

// ended waits like an agent until a run or jobs have ended, and returns the exit status.
func (s *mcpSession) ended(args arguments) int {
	s.t.Helper()
	for {
		var e struct {
			Ended bool `json:"ended"`
			Exit  *int `json:"exit_status"`
		}
		s.call("wait", args, &e)
		if e.Ended {
			return *e.Exit
		}
	}
}

func mcpRoot(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMCPClientRunsJobFile(t *testing.T) {
	t.Parallel()
	dir := mcpRoot(t)
	writeFile(t, filepath.Join(dir, "jobs.yaml"), `
jobs:
  - name: "train-s{seed}"
    matrix: {seed: 1..3}
    gpu_memory: 2GiB
    run: 'echo "acc = 0.{seed}"; test {seed} != 3 || { printf "\033[31mValueError: bad \0001 lr\n" >&2; exit 7; }'
    metrics: {acc: 'acc = ([0-9.]+)'}
  - {name: table, needs: "train-*", gpus: 0, run: echo}
`)
	s := openMCP(t, dir, "--allow", "control,run")
	file := arguments{"file": "jobs.yaml"}

	var checked schema.Problems
	if s.call("check", file, &checked); len(checked.Problems) > 0 || checked.Files[0].Path != filepath.Join(dir, "jobs.yaml") {
		t.Errorf("check: %+v", checked)
	}
	var plan schema.Status
	s.call("plan", arguments{"file": "jobs.yaml", "params": arguments{"seed": "1,2,3"}}, &plan)
	if len(plan.Jobs) != 4 || !plan.Jobs[0].Plan.Run || plan.Jobs[0].Plan.Code != schema.PlanNeverRan {
		t.Errorf("plan: %+v", plan.Jobs)
	}
	s.call("run", file, nil)
	if code := s.ended(file); code != 1 {
		t.Errorf("the run ended with %d, want 1", code)
	}
	var st schema.Status
	s.call("status", arguments{"file": "jobs.yaml", "states": []string{"failed"}}, &st)
	if len(st.Jobs) != 1 || st.Jobs[0].Name != "train-s3" || st.Jobs[0].Cause.Code != "exit" || st.Counts[state.Succeeded] != 2 || st.Counts[state.Blocked] != 1 {
		t.Errorf("status: %+v %v", st.Jobs, st.Counts)
	}
	var why schema.Why
	s.call("why", arguments{"file": "jobs.yaml", "jobs": []string{"table"}}, &why)
	if chain := strings.Join(why.Jobs[0].Chain, "\n"); !strings.Contains(chain, "train-s3") || !strings.Contains(chain, "ValueError: bad") {
		t.Errorf("why: %s", chain)
	}
	var log struct{ Untrusted, Text string }
	s.call("log", arguments{"file": "jobs.yaml", "failed": true}, &log)
	if log.Text != "acc = 0.3\nValueError: bad 1 lr\n" || log.Untrusted == "" {
		t.Errorf("log: %q", log)
	}
	var results struct {
		Rows []struct {
			Cells []struct {
				Mean *float64
				N    int
			}
		}
	}
	s.call("results", file, &results)
	if c := results.Rows[0].Cells[0]; c.N != 2 || *c.Mean != 0.15000000000000002 && *c.Mean != 0.15 {
		t.Errorf("results: %+v", results)
	}
	var history schema.History
	s.call("history", arguments{"file": "jobs.yaml", "jobs": []string{"train-*"}}, &history)
	if len(history.Attempts) != 3 {
		t.Errorf("history: %+v", history.Attempts)
	}
	var gpus schema.GPUs
	if s.call("gpus", arguments{"gpu_memory": "2GiB"}, &gpus); len(gpus.GPUs) != 2 {
		t.Errorf("gpus: %+v", gpus)
	}

	// Add and run a job that does not end by itself, then stop the run.
	s.call("add", arguments{"file": "jobs.yaml", "command": []string{"sh", "-c", "touch on; while test -e on; do sleep 0.05; done; exit 3"}}, nil)
	s.call("run", arguments{"file": "jobs.yaml", "skip": []string{"t*"}}, nil)
	if p, _ := s.refused("run", file); p.Code != "state" {
		t.Errorf("second run: got %+v, want code state", p)
	}
	var e struct {
		Ended bool
		Exit  *int `json:"exit_status"`
	}
	if s.call("wait", arguments{"file": "jobs.yaml", "seconds": 0.1}, &e); e.Ended || e.Exit != nil {
		t.Errorf("wait: %+v", e)
	}
	if p, _ := s.refused("status", arguments{"file": "jobs.yaml", "states": []string{"failed", "faild"}}); p.Code != "usage" || !strings.Contains(p.Text, "faild") {
		t.Errorf("status with an unknown state: got %+v, want code usage", p)
	}
	if p, _ := s.refused("stop", file); p.Code != "usage" {
		t.Errorf("stop without jobs: got %+v, want code usage", p)
	}
	s.call("stop", arguments{"file": "jobs.yaml", "whole_run": true}, nil)
	if code := s.ended(file); code != 143 {
		t.Errorf("the stopped run ended with %d, want 143", code)
	}
	if p, _ := s.refused("retry", arguments{"file": "jobs.yaml", "jobs": []string{"train-s3"}}); p.Code != "state" || *p.Hint == "" {
		t.Errorf("retry without a run: got %+v, want code state with a hint", p)
	}
}

func TestReadOnlyMCPRefusesChanges(t *testing.T) {
	t.Parallel()
	dir := mcpRoot(t)
	writeFile(t, filepath.Join(dir, "jobs.yaml"), "jobs:\n  - {name: a, gpus: 0, run: touch ran}\n")
	all := map[string]arguments{
		"run":   {"file": "jobs.yaml"},
		"add":   {"file": "jobs.yaml", "command": []string{"touch", "ran"}},
		"stop":  {"file": "jobs.yaml", "whole_run": true},
		"retry": {"file": "jobs.yaml", "jobs": []string{"a"}},
	}
	needs := map[string]string{"run": "run", "add": "run", "stop": "control", "retry": "control"}
	for _, allow := range []string{"", "control", "run"} {
		s := openMCP(t, dir, slices.Concat(map[bool][]string{true: {"--allow", allow}}[allow != ""])...)
		for tool, args := range all {
			if needs[tool] == allow {
				if s.tools[tool] == nil {
					t.Errorf("--allow %s does not offer %s", allow, tool)
				}
				continue
			}
			p, _ := s.refused(tool, args)
			if s.tools[tool] != nil || p.Code != "not_allowed" || !strings.Contains(*p.Hint, "--allow "+needs[tool]) {
				t.Errorf("--allow %q, %s: %+v", allow, tool, p)
			}
		}
		for name, tool := range s.tools {
			if looks := needs[name] == ""; tool.Annotations.ReadOnlyHint != looks {
				t.Errorf("%s: got read-only %v, want %v", name, !looks, looks)
			}
		}
	}
	if host.Exists(filepath.Join(dir, "ran")) || host.Exists(filepath.Join(dir, ".gpurun")) {
		t.Error("a refused call started a job or created a state folder")
	}
}
