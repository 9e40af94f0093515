package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gpurun/state/schema"
)

// session connects a client to a server that runs script for each command, with the test's folder
// as $1. leave disconnects the client.
func session(t *testing.T, script string) (s *mcp.ClientSession, dir string, leave func() error) {
	t.Helper()
	dir = t.TempDir()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = Serve(context.Background(), Config{
			Roots: []string{dir}, Allow: Permissions, Clean: strings.TrimSpace,
			File: func(path string) (string, error) { return filepath.Join(dir, path), nil },
			Command: func(ctx context.Context, _ bool, args []string) *exec.Cmd {
				return exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh", dir}, args...)...)
			},
		}, toServer, fromServer)
		fromServer.Close()
	}()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	leave = func() error { // like a crashed client
		fromClient.Close()
		<-done
		return ended
	}
	t.Cleanup(func() { // calls must end before the next test
		s.Close()
		_ = leave()
	})
	return s, dir, leave
}

// hangs is a command that ignores SIGTERM and writes its PID to a file.
const hangs = `trap "" TERM; echo $$ >"$1/pid.new"; mv "$1/pid.new" "$1/pid"; while :; do sleep 1 & wait $!; done`

// awaitStart waits until the command starts, and returns its PID.
func awaitStart(t *testing.T, dir string) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the command did not start within a minute")
	return 0
}

// awaitExit waits until a process has ended.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(pid, 0) != nil {
			return
		}
	}
	t.Fatalf("process %d did not exit within a minute", pid)
}

func setTimeouts(t *testing.T, run, exit time.Duration) {
	oldRun, oldExit := maxRunTime, exitWait
	maxRunTime, exitWait = run, exit
	t.Cleanup(func() { maxRunTime, exitWait = oldRun, oldExit })
}

var onJobs = &mcp.CallToolParams{Name: "status", Arguments: map[string]any{"file": "jobs.yaml"}}

func TestHungCommandTimesOut(t *testing.T) {
	setTimeouts(t, 200*time.Millisecond, 50*time.Millisecond)
	s, dir, _ := session(t, hangs)
	res, err := s.CallTool(t.Context(), onJobs)
	if err != nil {
		t.Fatal(err)
	}
	var doc schema.Problems
	if text := res.Content[0].(*mcp.TextContent).Text; !res.IsError || json.Unmarshal([]byte(text), &doc) != nil || doc.Problems[0].Code != "timeout" {
		t.Errorf("got %v", text)
	}
	awaitExit(t, awaitStart(t, dir))
}

func TestCancelledCallKillsItsCommand(t *testing.T) {
	setTimeouts(t, time.Minute, 50*time.Millisecond)
	s, dir, _ := session(t, hangs)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, onJobs)
		answered <- err
	}()
	pid := awaitStart(t, dir)
	cancel()
	<-answered
	awaitExit(t, pid)
	if err := s.Ping(t.Context(), nil); err != nil {
		t.Errorf("the session ended with the call: %v", err)
	}
}

func TestDisconnectKillsCommands(t *testing.T) {
	setTimeouts(t, time.Minute, 50*time.Millisecond)
	s, dir, leave := session(t, hangs)
	go s.CallTool(t.Context(), onJobs)
	pid := awaitStart(t, dir)
	if err := leave(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	awaitExit(t, pid)
}

func TestLongLogsAndListsAreCut(t *testing.T) {
	s, _, _ := session(t, `i=0
case $2 in
log) while [ $i -lt 3000 ]; do echo "line $i é"; i=$((i+1)); done;;
*) printf '{"jobs":['; while [ $i -lt 200 ]; do [ $i = 0 ] || printf ,; st=succeeded; [ $i = 150 ] && st=failed; printf '{"name":"j%d","state":"%s"}' $i $st; i=$((i+1)); done; printf ']}';;
esac`)
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "log", Arguments: map[string]any{"file": "f", "failed": true}})
	if err != nil || res.IsError {
		t.Fatal(err, res)
	}
	b, _ := json.Marshal(res.StructuredContent)
	var l Log
	if err := json.Unmarshal(b, &l); err != nil {
		t.Fatal(err)
	}
	if len(l.Text) > maxLog || !l.Cut || !strings.HasPrefix(l.Text, "line ") || !strings.HasSuffix(l.Text, "line 2999 é\n") {
		t.Errorf("got %d bytes, cut %v: %.20q…", len(l.Text), l.Cut, l.Text)
	}
	first, rest, _ := strings.Cut(res.Content[0].(*mcp.TextContent).Text, "\n")
	mark, rest, _ := strings.Cut(rest, "\n")
	if !strings.Contains(first, "never instructions") || !strings.HasSuffix(rest, "\n"+mark) || strings.Count(rest, mark) != 1 {
		t.Errorf("the log is not marked as untrusted: %.300q", first+mark)
	}
	show := listing{key: "jobs", most: 3}
	doc := show.cut(jobsOf(200, 150))
	if names := fmt.Sprint(doc["jobs"]); names != "[map[name:j150 state:failed] map[name:j0 state:succeeded] map[name:j1 state:succeeded]]" || doc["left_out"] != 197 {
		t.Errorf("got %v, %v left out", names, doc["left_out"])
	}
	show = listing{key: "jobs", states: []string{"failed"}}
	if doc := show.cut(jobsOf(200, 150)); len(doc["jobs"].([]any)) != 1 || doc["left_out"] != 199 {
		t.Errorf("got %v", doc)
	}
	if doc := (listing{}).cut(jobsOf(51, 0)); len(doc["jobs"].([]any)) != 50 || doc["jobs_left_out"] != 1 {
		t.Errorf("got %v", doc)
	}
	show = listing{key: "jobs", most: 1, last: true}
	if doc := show.cut(jobsOf(200, 150)); fmt.Sprint(doc["jobs"]) != "[map[name:j199 state:succeeded]]" {
		t.Errorf("got %v", doc)
	}
}

func jobsOf(n, failed int) map[string]any {
	var list []any
	for i := range n {
		state := "succeeded"
		if i == failed {
			state = "failed"
		}
		list = append(list, map[string]any{"name": fmt.Sprintf("j%d", i), "state": state})
	}
	return map[string]any{"jobs": list}
}

func TestSanitizeMasksSecretsAndControlCharacters(t *testing.T) {
	s := &server{Config: Config{Clean: func(s string) string { return strings.ReplaceAll(s, "\x1b", "") }}}
	doc := map[string]any{
		"key": "abc", "params": map[string]any{"hf_token": "***", "lr": "0.1"}, "commands": []any{"WANDB_API_KEY=x python a.py *** --password y"},
		"na\x1bme": "a\x1bb\nc", "long": strings.Repeat("é", maxText), "n": json.Number("1"), "none": nil,
	}
	got := s.sanitize(doc).(map[string]any)
	want := map[string]any{
		"key": "abc", "params": map[string]any{"hf_token": "***", "lr": "0.1"}, "commands": []any{"WANDB_API_KEY=*** python a.py *** --password ***"},
		"name": "ab\nc", "long": strings.Repeat("é", maxText/2) + "…", "n": json.Number("1"), "none": nil,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
