package slurm

import (
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine/cluster"
)

func TestAllocationFromEnvironment(t *testing.T) {
	env := map[string]string{
		"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "4", "SLURM_MEM_PER_CPU": "512", "SLURM_RESTART_COUNT": "1", "SLURM_JOB_END_TIME": "60",
	}
	a := Dialect{}.Allocation(func(name string) string { return env[name] })
	if want := (cluster.Allocation{ID: "12", Restarts: "1", CPUs: 4, RAM: 2 * gpu.GiB, Nodes: 2, Ends: time.Unix(60, 0)}); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
	delete(env, "SLURM_JOB_ID")
	if a := (Dialect{}).Allocation(func(name string) string { return env[name] }); a.ID != "" {
		t.Errorf("without SLURM_JOB_ID: got %+v", a)
	}
}

// A job's reported state shows whether the job still has processes.
func TestShownJobStates(t *testing.T) {
	for _, tt := range []struct {
		said  string
		ok    bool
		alive bool
		ends  string
	}{
		{"JobId=12 JobName=x JobState=RUNNING Reason=None Restarts=0 BatchFlag=1 EndTime=2026-11-23T19:38:12 Deadline=N/A", true, true, "19:38"},
		{"JobId=12 JobName=x JobState=RUNNING Reason=None Restarts=0 BatchFlag=1 EndTime=Unknown Deadline=N/A", true, true, ""},
		{"JobId=12 JobName=x JobState=COMPLETING Reason=None Restarts=0 BatchFlag=1 EndTime=2026-11-23T19:38:12 Deadline=N/A", true, true, "19:38"},
		{"JobId=12 JobName=x JobState=SUSPENDED Reason=None Restarts=0 BatchFlag=1 EndTime=2026-11-23T19:38:12 Deadline=N/A", true, true, "19:38"},
		{"JobId=12 JobName=x JobState=TIMEOUT Reason=TimeLimit Restarts=0 BatchFlag=1 EndTime=2026-11-23T19:38:12 Deadline=N/A", true, false, "19:38"},
		{"JobId=12 JobName=x JobState=PENDING Reason=BeginTime Restarts=1 BatchFlag=1 EndTime=Unknown Deadline=N/A", true, false, ""},
		{"slurm_load_jobs error: Invalid job id specified", true, false, ""},
		{"slurm_load_jobs error: Unable to contact slurm controller (connect failure)", false, false, ""},
		{"", false, false, ""},
	} {
		s, err := readShown("test\n" + tt.said + "\n")
		ends := ""
		if !s.Ends.IsZero() {
			ends = s.Ends.Format("15:04")
		}
		if s.Cluster != "test" || (err == nil) != tt.ok || s.Alive != tt.alive || ends != tt.ends {
			t.Errorf("%q: got %+v, %v", tt.said, s, err)
		}
	}
}
