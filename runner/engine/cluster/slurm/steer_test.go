package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/runner/engine/cluster"
)

// scontrol fails if some of its tasks have ended, but gpurun must not count that as an error.
func TestScontrolErrorsForEndedTasksAreIgnored(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for said, good := range map[string]bool{
		"": true, "1_0-1: Job has already finished\n1_2-9: No error": true, "Invalid job id specified for job 9\nslurm_suspend error: Invalid job id specified": true,
		"Access/permission denied for job 7": false, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)": false,
	} {
		script := "#!/bin/sh\n[ \"$*\" = 'hold 7 8_3' ] || exit 9\n[ -z '" + said + "' ] || { echo '" + said + "' >&2; exit 1; }\n"
		if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		c := Dialect{}.Order(cluster.Hold, []string{"7", "8_3"}, 0)
		out, err := exec.Command(c.Args[0], c.Args[1:]...).CombinedOutput()
		if (err == nil) != good || !good && strings.TrimSpace(string(out)) != said {
			t.Errorf("%q: got %v, %q", said, err, out)
		}
	}
}

// A throttle of 0 would mean no limit, so a submission never has it.
func TestSubmitHoldsAndThrottles(t *testing.T) {
	for want, a := range map[string]cluster.Array{
		"--array=0-9 ": {Tasks: 10}, "--array=0-9%2 ": {Tasks: 10, Throttle: 2}, "--hold": {Tasks: 10, Throttle: 1, Held: true},
	} {
		got := strings.Join((Dialect{}).Submit(a, nil).Args, " ") + " "
		if !strings.Contains(got, want) || strings.Contains(got, "--hold") != a.Held || strings.Contains(got, "%0") {
			t.Errorf("%+v: got %q, want %q in it", a, got, want)
		}
	}
}

// squeue shows an array's throttle, unless the tasks in a row wait for different reasons.
func TestThrottleFromSqueue(t *testing.T) {
	for text, want := range map[string]cluster.Row{
		"2-9%2|PENDING|JobArrayTaskLimit":            {Throttle: 2, State: cluster.Pending},
		"2-9%2|PENDING|JobHeldUser":                  {Throttle: 2, State: cluster.Stuck, Reason: "JobHeldUser"},
		"2-9|PENDING|JobArrayTaskLimit,JobHeldAdmin": {State: cluster.Pending, Mixed: true, Reason: "JobArrayTaskLimit,JobHeldAdmin"},
		"2-9|PENDING|Resources,JobHeldUser":          {State: cluster.Pending, Mixed: true, Reason: "Resources,JobHeldUser", Unheld: "Resources"},
	} {
		rows, err := readRows("7|" + text + "||N/A|0||||||gpu|a.jobs-1|\n")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%q: got %+v, %v, want one row", text, rows, err)
		}
		if r := rows[0]; r.Throttle != want.Throttle || r.State != want.State || r.Mixed != want.Mixed || r.Reason != want.Reason || r.Unheld != want.Unheld {
			t.Errorf("%q: got %+v, want %+v", text, r, want)
		}
	}
}
