package gridengine

import (
	"strings"
	"testing"
	"time"
)

// The output of qstat -xml -j shows whether a job still has processes, and when the job ends.
func TestShownJobStates(t *testing.T) {
	task := func(number, status, start string) string {
		return "<ulong_sublist><JAT_status>" + status + "</JAT_status><JAT_task_number>" + number + "</JAT_task_number><JAT_start_time>" + start + "</JAT_start_time></ulong_sublist>"
	}
	job := func(tasks ...string) string {
		return "vm\n<?xml version='1.0'?>\n<detailed_job_info xmlns:xsd='x'><djob_info><element><JB_hard_resource_list>" +
			"<qstat_l_requests><CE_name>gpu</CE_name><CE_doubleval>2.0</CE_doubleval></qstat_l_requests>" +
			"<qstat_l_requests><CE_name>h_rt</CE_name><CE_doubleval>300.0</CE_doubleval></qstat_l_requests></JB_hard_resource_list><JB_ja_tasks>" +
			strings.Join(tasks, "") + "</JB_ja_tasks></element></djob_info></detailed_job_info>\n"
	}
	for _, tt := range []struct {
		id, said string
		ok       bool
		alive    bool
		ends     int64
	}{
		{"7", job(task("1", "128", "1000")), true, true, 1300},
		{"7.2", job(task("1", "128", "1000"), task("2", "128", "2000")), true, true, 2300},
		{"7.3", job(task("1", "128", "1000")), true, false, 0},
		{"7", job(task("1", "2112", "0")), true, false, 0},                   // waiting to run again
		{"7", job(task("1", "384", "1000000000000")), true, true, 1e9 + 300}, // suspended; milliseconds
		{"7", "vm\n<?xml version='1.0'?>\n<unknown_jobs><ST_name>7</ST_name></unknown_jobs>", true, false, 0},
		{"7", "vm\nerror: unable to contact qmaster", false, false, 0},
	} {
		s, err := (Dialect{}).Show(tt.id).Read(tt.said)
		if want := time.Unix(tt.ends, 0); s.Cluster != "vm" || (err == nil) != tt.ok || s.Alive != tt.alive || tt.ends != 0 && !s.Ends.Equal(want) || tt.ends == 0 && !s.Ends.IsZero() {
			t.Errorf("%s of %q: got %+v, %v", tt.id, tt.said, s, err)
		}
	}
	for _, tt := range []struct{ job, task, id string }{{"7", "undefined", "7"}, {"7", "3", "7.3"}, {"", "", ""}} {
		env := map[string]string{"JOB_ID": tt.job, "SGE_TASK_ID": tt.task, "NSLOTS": "4", "NHOSTS": "1"}
		if a := (Dialect{}).Allocation(func(name string) string { return env[name] }); a.ID != tt.id || a.CPUs != 4 || a.Nodes != 1 {
			t.Errorf("got %+v, want %s", a, tt.id)
		}
	}
}
