package gridengine

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
)

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The input is real qstat output for jobs that were running, waiting, held, or could not start.
func TestRowsOfRealQstat(t *testing.T) {
	rows, err := readRows(read(t, "qstat.xml"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(job string, n int) cluster.Row {
		for _, r := range rows {
			if r.Job == job && r.First <= n && n <= r.Last {
				return r
			}
		}
		return cluster.Row{}
	}
	for _, tt := range []struct {
		job  string
		n    int
		want cluster.Row
	}{
		{"36", 0, cluster.Row{Name: "gr-rec-00000002", GPUs: 1, State: cluster.Runs, Node: "node1", Word: "r"}},
		{"36", 4, cluster.Row{GPUs: 1, Name: "gr-rec-00000002", First: 4, Last: 4, State: cluster.Pending, Word: "qw"}},
		{"36", 5, cluster.Row{}}, // deleted while waiting
		{"36", 6, cluster.Row{GPUs: 1, Name: "gr-rec-00000002", First: 6, Last: 6, State: cluster.Pending, Word: "qw"}},
		{"35", 1, cluster.Row{GPUs: 1, Name: "gr-rec-00000001", First: 1, Last: 1, State: cluster.Stuck, Never: true, Word: "Eqw"}},
		{"35", 2, cluster.Row{}}, // ended
		{"37", 3, cluster.Row{Name: "gr-rec-00000003", Last: 3, State: cluster.Stuck, Reason: "held", Word: "hqw"}},
		{"38", 0, cluster.Row{Name: "gr-rec-00000004", State: cluster.Runs, Node: "node1", Word: "r"}}, // not an array
	} {
		if tt.want.Name != "" {
			tt.want.Job = tt.job
		}
		if got := at(tt.job, tt.n); got != tt.want {
			t.Errorf("%s.%d: got %+v, want %+v", tt.job, tt.n+1, got, tt.want)
		}
	}
	for letters, held := range map[string]bool{"s": true, "S": true, "T": true, "dS": true, "t": false, "hr": false, "dt": false} {
		if rows, err := readRows(strings.ReplaceAll(read(t, "qstat.xml"), "<state>r</state>", "<state>"+letters+"</state>")); err != nil || len(rows) == 0 || rows[0].Word != letters || rows[0].Suspended != held {
			t.Errorf("%s: got %+v, %v, want the first suspended: %v", letters, rows, err, held)
		}
	}
	for _, text := range []string{"", "error: commlib error: got select error (Connection refused)\n"} {
		if _, err := readRows(text); err == nil {
			t.Errorf("%q was parsed as a list", text)
		}
	}
}

func TestStatesOfGridEngine(t *testing.T) {
	for letters, want := range map[string]cluster.State{
		"t": cluster.Active, "r": cluster.Runs, "Rr": cluster.Runs, "hr": cluster.Runs, "dr": cluster.Active, "Sr": cluster.Active, "S": cluster.Active, "T": cluster.Active, "dt": cluster.Active,
		"Rq": cluster.Pending, "hRwq": cluster.Stuck, "Ehqw": cluster.Stuck, "x": cluster.Active,
	} {
		if got, _, _ := stateOf(letters); got != want {
			t.Errorf("%s: got %d, want %d", letters, got, want)
		}
	}
}

// The input is real output of qstat -j and qacct -j. The last record of a task counts, unless it is
// for a rerun that found the task already begun and did nothing.
func TestEndsFromRealOutput(t *testing.T) {
	got := map[string]cluster.Row{}
	past, _ := readEnds(read(t, "past.txt"))
	for _, r := range past {
		got[Dialect{}.Task(r.Job, r.First)] = r
	}
	for task, want := range map[string]cluster.Row{
		"35.2": {First: 1, Last: 1, State: cluster.Stuck, Never: true, Reason: "exit_status of prolog = 100"},
		"16.2": {First: 1, Last: 1, State: cluster.Completed, Node: "node1", Word: "0"},
		"18.1": {State: cluster.Failed, Node: "node1", Raw: 143 << 8, Word: "0"},
		"19.1": {State: cluster.Cancelled, Node: "node1", Raw: 137 << 8, Word: "assumedly after job"},
		"20.1": {State: cluster.TimedOut, Node: "node1", Raw: 143 << 8, Word: "qmaster enforced h_rt, h_cpu, or h_vmem limit"},
		"23.1": {State: cluster.Failed, Node: "node1", Raw: 96 << 8, Word: "0"},
		"27.1": {State: cluster.Preempted, Node: "node1", Raw: 99 << 8, Word: "rescheduling"},
	} {
		want.Job, _, _ = strings.Cut(task, ".")
		if got[task] != want {
			t.Errorf("%s: got %+v, want %+v", task, got[task], want)
		}
	}
	account := func(failed, category string) string {
		return "====\njobnumber 7\ntaskid 1\nfailed " + failed + "\nexit_status 0\nru_wallclock 10s\ncategory " + category + "\n"
	}
	for _, tt := range []struct {
		text string
		want cluster.State
	}{
		{account("25  : rescheduling", "NONE") + account("0", "NONE"), cluster.Preempted},
		{account("25  : rescheduling", "NONE") + account("100 : assumedly after job", "NONE"), cluster.Cancelled},
		{account("37  : limit", "-l h_rt=60,h_vmem=2G"), cluster.OutOfMemory},
		{account("37  : limit", "-l h_rt=10,h_vmem=2G"), cluster.TimedOut},
		{account("8   : in prolog", "NONE"), cluster.NodeFailed},
	} {
		rows, _ := readEnds(tt.text)
		if len(rows) == 0 || rows[len(rows)-1].State != tt.want {
			t.Errorf("%s: got %+v, want state %d at the end", tt.text, rows, tt.want)
		}
	}
}

func TestRefusalsOfQsub(t *testing.T) {
	type refusal struct {
		Is  cluster.Refusal
		Why string
	}
	heard(t, func(text string) (r refusal) {
		_, r.Is, r.Why = Dialect{}.Answer("", text)
		return r
	}, map[string]refusal{
		"Unable to run job: Job was rejected because job requests unknown queue \"nope\"\nExiting.\n":       {Is: cluster.Never, Why: `Job was rejected because job requests unknown queue "nope"`},
		"Unable to run job: error: no suitable queues\nExiting.\n":                                          {Is: cluster.Never},
		"Unable to run job: Job 2 (-l gpu=9) cannot run at host \"vm\"\nverification: no suitable queues\n": {Is: cluster.Never, Why: `(-l gpu=9) cannot run at host "vm"`},
		"qsub: invalid option argument \"-zzz\"\n":                                                          {Is: cluster.Never, Why: `qsub: invalid option argument "-zzz"`},
		"Unable to run job: job rejected: you tried to submit a job with more than 75000 tasks\nExiting.\n": {
			Is: cluster.Fewer, Why: "job rejected: you tried to submit a job with more than 75000 tasks",
		},
		"Unable to run job: job rejected: only 5 jobs are allowed per user (current job count: 5)\nExiting.\n": {
			Is: cluster.Full, Why: "job rejected: only 5 jobs are allowed per user (current job count: 5)",
		},
		"error: commlib error: got select error (Connection refused)\nUnable to run job: unable to send message to qmaster using port 6444 on host \"h\": got send error\n": {
			Is: cluster.Unreachable, Why: "commlib error: got select error (Connection refused)",
		},
		"Unable to run job: Error reading answer list from qmaster.\nExiting.\n": {Is: cluster.Unclear, Why: "Error reading answer list from qmaster."},
		"Unable to run job: failed receiving gdi request response for mid=1 (got syncron message receive timeout error).\nExiting.\n": {
			Is: cluster.Unclear, Why: "failed receiving gdi request response for mid=1 (got syncron message receive timeout error).",
		},
		"": {Is: cluster.Unclear},
	})
}

// heard checks how the output of a command is parsed.
func heard[T comparable](t *testing.T, hear func(text string) T, all map[string]T) {
	t.Helper()
	for text, want := range all {
		if got := hear(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestAcceptedJobIDs(t *testing.T) {
	heard(t, func(text string) string { job, _, _ := Dialect{}.Answer(text, ""); return job }, map[string]string{
		"17.1-4:1\n": "17", "17\n": "17", "": "", "qsub: warning: x\n18.1-1:1\n": "18", "Your job 17 has been submitted\n": "",
	})
}

func TestArgsOfQsub(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ask     engine.Request
		limit   time.Duration
		options map[string]string
		want    string // or the beginning of the error
	}{
		{"no request", engine.Request{}, 0, nil, ""},
		{"GPUs", engine.Request{GPUs: 2, CPUs: 8}, 61 * time.Second, nil, "-pe smp 8 -l gpu=2,h_rt=61"},
		{"one CPU", engine.Request{GPUs: 1, CPUs: 1}, 0, map[string]string{"gpu_resource": "ngpus"}, "-l ngpus=1"},
		{"site options", engine.Request{CPUs: 2, Priority: -5}, 0, map[string]string{"queue": "q", "project": "p", "account": "a", "pe": "threads", "extra": "-l ib=1\n-m e"},
			"-q q -P p -A a -pe threads 2 -p -5 -l ib=1 -m e"},
		{"excluded nodes", engine.Request{}, 0, map[string]string{"exclude": "node1,node2"}, "-l hostname=!(node1|node2|small)"},
		{"priority below the minimum", engine.Request{Priority: -9999}, 0, nil, "-p -1023"},
		{"GPUs per slot", engine.Request{GPUs: 4, CPUs: 2}, 0, map[string]string{"gpu_resource": "gpu/slot"}, "-pe smp 2 -l gpu=2"},
		{"GPUs not divisible by slots", engine.Request{GPUs: 1, CPUs: 2}, 0, map[string]string{"gpu_resource": "gpu/slot"}, "gpus: this cluster counts gpu per slot"},
		{"memory", engine.Request{Memory: 3*gpu.GiB + 1}, 0, map[string]string{"memory_resource": "mem_free"}, "-l mem_free=3073M"},
		{"memory per slot", engine.Request{Memory: 4 * gpu.GiB, CPUs: 3}, 0, map[string]string{"memory_resource": "mem/slot"}, "-pe smp 3 -l mem=1366M"},
		{"address space", engine.Request{Memory: 4 * gpu.GiB, CPUs: 2}, 0, map[string]string{"memory_resource": "h_vmem/slot"}, "-pe smp 2 -l h_vmem=4096M"},
		{"memory without a resource", engine.Request{Memory: gpu.GiB}, 0, nil, "memory: no memory resource known for this cluster"},
		{"a model", engine.Request{GPUs: 1, Models: []string{"a100"}}, 0, map[string]string{"models.a100": "gpu_type=A100"}, "-l gpu=1,gpu_type=A100"},
		{"several models", engine.Request{GPUs: 1, Models: []string{"a100", "v100", "a100"}}, 0,
			map[string]string{"models.a100": "gpu_type=A", "models.v100": "gpu_type=V"}, "-l gpu=1,gpu_type=A|V"},
		{"an unknown model", engine.Request{GPUs: 1, Models: []string{"h100"}}, 0, nil, "gpu_model: no name for \"h100\" on this cluster"},
		{"models of two resources", engine.Request{GPUs: 1, Models: []string{"a", "b"}}, 0, map[string]string{"models.a": "x=1", "models.b": "y=1"}, "gpu_model: Grid Engine needs all models"},
		{"a model without GPUs", engine.Request{Models: []string{"h100"}}, 0, nil, ""},
	} {
		tt.ask.Limit, tt.ask.Options = tt.limit, tt.options
		a := cluster.JobRequest{Request: tt.ask}
		if tt.options["exclude"] != "" {
			a.Small = []string{"small"}
		}
		args, err := Dialect{}.Args(a)
		got := strings.Join(args, " ")
		if err != nil {
			got = err.Error()[:min(len(err.Error()), len(tt.want))]
		}
		if got != tt.want || err != nil && got == "" {
			t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestNodesFromQhost(t *testing.T) {
	nodes, err := readNodes(read(t, "qhost.xml") + between + "\n" + read(t, "qstat.xml"))
	if err != nil || len(nodes) != 1 {
		t.Fatalf("got %+v, %v", nodes, err)
	}
	n := nodes[0]
	if n.Name != "node1" || n.GPUs != 4 || n.Used != 4 || !n.Open || n.State != "up" || !slices.Equal(n.Parts, []string{"gpu.q"}) ||
		!slices.Equal(n.Occupants, []cluster.Occupant{{User: "ann", Jobs: 5, GPUs: 4}}) {
		t.Errorf("got %+v", n)
	}
	down := strings.Replace(read(t, "qhost.xml"), "name='state_string'>", "name='state_string'>au", 1)
	if nodes, err := readNodes(down + between + "\n" + read(t, "qstat.xml")); err != nil || nodes[0].Open || nodes[0].State != "overloaded, unreachable" {
		t.Errorf("got %+v, %v", nodes, err)
	}
	if _, err := readNodes("error: x\n"); err == nil {
		t.Error("an error message was parsed as a list")
	}
}

func FuzzRows(f *testing.F) {
	f.Add(read(f, "qstat.xml"), read(f, "qhost.xml"))
	f.Add("<job_info><job_info><job_list><tasks>1,3-5:2</tasks></job_list></job_info></job_info>", "<qhost/>")
	f.Fuzz(func(t *testing.T, jobs, hosts string) {
		rows, _ := readRows(jobs)
		for _, r := range rows {
			if r.First < 0 || r.Last < r.First {
				t.Errorf("%+v", r)
			}
		}
		_, _ = readNodes(hosts + between + "\n" + jobs)
	})
}

func FuzzEnds(f *testing.F) {
	f.Add(read(f, "past.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		ends, _ := readEnds(text)
		for _, r := range ends {
			if r.First < 0 || r.Last < r.First {
				t.Errorf("%+v", r)
			}
		}
		Dialect{}.Answer(text, text)
	})
}
