package uniid

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
)

// A script's report counts even if gpurun replaced the file while the script had it open.
func TestReportFromReplacedFileCounts(t *testing.T) {
	dir := t.TempDir()
	jobs, path := filepath.Join(dir, "command.txt"), filepath.Join(dir, "logs", "uni_id.json")
	write(t, jobs, "x\n1,1\n")
	b, err := jobspec.Load([]string{jobs}, jobspec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path, "{}")
	script, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	before, err := script.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s := New(b, plain)
	defer s.Close()
	s.Fact(0, state.Fact{Kind: state.KindRunning, UniID: "u1", PID: 7, Attempt: 1})
	for deadline := time.Now().Add(time.Minute); ; {
		if now, err := os.Stat(path); err == nil && !os.SameFile(now, before) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the file was not replaced within a minute")
		}
		time.Sleep(time.Millisecond)
	}
	if got, _ := s.Report(0, "u1"); got != "" {
		t.Errorf("got %q before the script wrote its report", got)
	}
	if _, err := script.WriteAt([]byte(`{"u1": {"state": "abnormal_exit", "error_type": "oom"}}`), 0); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Report(0, "u1"); got != abnormal {
		t.Errorf("got %q, want %q", got, abnormal)
	}
	if got, _ := s.Report(0, "u2"); got != "" {
		t.Errorf("got %q for an attempt without a report", got)
	}
}
