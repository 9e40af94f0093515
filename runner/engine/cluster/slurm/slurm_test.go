package slurm

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

// The input is real squeue output for jobs that failed, were killed, used too much memory, were
// refused, held or cancelled.
func TestRowsOfRealSqueue(t *testing.T) {
	text, err := os.ReadFile("testdata/squeue.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(string(text))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string, n int) cluster.Row {
		for _, r := range rows {
			if r.Name == "gr-rec-"+name && r.First <= n && n <= r.Last {
				return r
			}
		}
		return cluster.Row{}
	}
	for _, tt := range []struct {
		name string
		n    int
		want cluster.Row
	}{
		{"00000001", 1, cluster.Row{Job: "347", First: 1, Last: 1, State: cluster.Failed, Reason: "NonZeroExitCode", Node: "node1", Raw: 768, Word: "FAILED"}},
		{"00000002", 0, cluster.Row{Job: "348", State: cluster.Failed, Reason: "JobLaunchFailure", Node: "node1", Raw: 9, Word: "FAILED"}},
		{"00000003", 0, cluster.Row{Job: "349", State: cluster.Runs, Node: "node1", Word: "RUNNING"}},
		{"00000003", 1, cluster.Row{Job: "349", First: 1, Last: 1, State: cluster.Cancelled, Node: "node1", Raw: 15, Word: "CANCELLED"}},
		{"00000004", 2, cluster.Row{Job: "350", First: 2, Last: 3, State: cluster.Pending, Reason: "Resources", Word: "PENDING", Expected: time.Date(2026, 11, 22, 14, 5, 30, 0, time.Local)}},
		{"00000004", 4, cluster.Row{}}, // cancelled while waiting
		{"00000004", 5, cluster.Row{Job: "350", First: 5, Last: 5, State: cluster.Pending, Reason: "Resources", Word: "PENDING"}},
		{"00000005", 3, cluster.Row{Job: "351", Last: 3, State: cluster.Stuck, Reason: "JobHeldUser", Word: "PENDING"}},
		{"00000007", 0, cluster.Row{Job: "353", State: cluster.Failed, Reason: "BadConstraints", Never: true, Raw: 1, Word: "FAILED"}},
		{"00000009", 0, cluster.Row{Job: "359", State: cluster.OutOfMemory, Reason: "OutOfMemory", Node: "node1", Raw: 253, Word: "OUT_OF_MEMORY"}},
	} {
		if tt.want.Job != "" {
			tt.want.Name, tt.want.GPUs = "gr-rec-"+tt.name, 2
		}
		if got := at(tt.name, tt.n); got != tt.want {
			t.Errorf("%s_%d: got %+v, want %+v", tt.name, tt.n, got, tt.want)
		}
	}
}

func TestRowsHaveTasksAndGPUs(t *testing.T) {
	rows, err := readRows("12|N/A|PENDING|Priority||N/A|0|N/A|1|gres:gpu:1|2|N/A|gpu|gr-a\n|b-12345678|\n" +
		"13|0-3:2|RUNNING|None|n1|2026-11-22T11:40:12|0|gres:gpu:a100:2|3|N/A|3|N/A|gpu|x|\n14|N/A|PENDING|None||N/A|0|N/A|1|N/A|1|gres:gpu:5|gpu|y|\n")
	if err != nil || len(rows) != 4 || !rows[0].Rest || rows[0].Name != "gr-a\n|b-12345678" || rows[2].First != 2 ||
		rows[0].GPUs != 2 || rows[1].GPUs != 6 || rows[3].GPUs != 5 {
		t.Errorf("got %+v, %v", rows, err)
	}
	for _, more := range []string{"", "12|N/A|PENDING|Priority||N/A|0|N/A|1|N/A|1|N/A|gpu|x|\n"} {
		if _, err := readRows("slurm_load_jobs error: Unable to contact slurm controller\n" + more); err == nil {
			t.Error("an error message was parsed as a list")
		}
	}
}

// If a job names several partitions, Slurm tries it in each, and reports the result from any of
// them.
func TestReasonAboutOneOfSeveralPartitions(t *testing.T) {
	for text, never := range map[string]bool{
		"PENDING|BadConstraints||N/A|0||||||gpu": true, "PENDING|PartitionConfig||N/A|0||||||gpu": true, "FAILED|BadConstraints||N/A|1||||||gpu,big": true,
		"PENDING|BadConstraints||N/A|0||||||gpu,big": false, "PENDING|PartitionConfig||N/A|0||||||gpu,big": false,
	} {
		rows, err := readRows("7|0-9|" + text + "|a.jobs-1|\n")
		if err != nil || len(rows) != 1 || rows[0].Never != never {
			t.Errorf("%s: got %+v, %v, want Never: %v", text, rows, err, never)
		}
	}
}

func TestStatesOfSlurm(t *testing.T) {
	for word, want := range map[string]cluster.State{
		"CANCELLED by 0": cluster.Cancelled, "CANCELLED+": cluster.Cancelled, "COMPLETING": cluster.Active, "SUSPENDED": cluster.Active,
		"RUNNING": cluster.Runs, "CONFIGURING": cluster.Active, "NODE_FAIL": cluster.NodeFailed, "BOOT_FAIL": cluster.NodeFailed, "DEADLINE": cluster.TimedOut,
		"PREEMPTED": cluster.Preempted, "SOMETHING_NEW": cluster.Active,
	} {
		if got := stateOf(word, ""); got != want {
			t.Errorf("%s: got %d, want %d", word, got, want)
		}
	}
}

// An unknown refusal by sbatch counts as permanent, and is reported with the controller's own text.
func TestRefusalsOfSbatch(t *testing.T) {
	const failed = "sbatch: error: Batch job submission failed: "
	const policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
	type refusal struct {
		Is  cluster.Refusal
		Why string
	}
	heard(t, func(text string) (r refusal) {
		_, r.Is, r.Why = Dialect{}.Answer("", text)
		return r
	}, map[string]refusal{
		failed + "Requested node configuration is not available\n": {
			Is: cluster.Never, Why: "Requested node configuration is not available (request less; sinfo -o '%P %G %c %m' lists the GPUs, CPUs and memory (MiB) of the nodes)",
		},
		"allocation failure: Invalid feature specification\n": {
			Is: cluster.Never, Why: "Invalid feature specification (fix cluster.constraint; sinfo -o '%P %f' lists the features)",
		},
		"sbatch: error: invalid partition specified: nope\n" + failed + "Invalid partition name specified\n": {
			Is: cluster.Never, Why: "invalid partition specified: nope; Invalid partition name specified (set cluster: {partition: NAME}; sinfo -s lists the partitions)",
		},
		failed + "Invalid node name specified\n": {
			Is: cluster.Never, Why: "Invalid node name specified (fix cluster.exclude; sinfo -N lists the nodes)",
		},
		"sbatch: error: QOSMaxGRESPerUser\n" + failed + policy + "\n": {
			Is: cluster.Never, Why: "QOSMaxGRESPerUser; " + policy + " (request less, or set another cluster.qos, account or partition)",
		},
		"sbatch: error: lua: no account, no job\n" + failed + "Unspecified error\n": {Is: cluster.Never, Why: "lua: no account, no job"},
		failed + "Something new\n": {Is: cluster.Never, Why: "Something new"},
		failed + "Socket, core and/or thread specification can not be satisfied\n":          {Is: cluster.Never, Why: "Socket, core and/or thread specification can not be satisfied"},
		"sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information\n": {Is: cluster.Never, Why: "unrecognized option '--foo'"},
		failed + "Invalid job array specification\n": {
			Is: cluster.Fewer, Why: "Invalid job array specification (MaxArraySize on this cluster allows no arrays)",
		},
		"sbatch: error: AssocMaxSubmitJobLimit\n" + failed + policy + "\n":      {Is: cluster.Full, Why: "AssocMaxSubmitJobLimit; " + policy},
		"sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + failed + policy + "\n": {Is: cluster.Full, Why: "QOSMaxSubmitJobPerUserLimit; " + policy},
		failed + policy + "\n": {Is: cluster.Full, Why: policy},
		"allocation failure: Required partition not available (inactive or drain)\n":     {Is: cluster.Later, Why: "Required partition not available (inactive or drain)"},
		"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n": {Is: cluster.Later, Why: "Slurm temporarily unable to accept job, sleeping and retrying"},
		"sbatch: fatal: Could not establish a configuration source\n":                    {Is: cluster.Unreachable, Why: "Could not establish a configuration source"},
		failed + "Unable to contact slurm controller (connect failure)\n":                {Is: cluster.Unclear, Why: "Unable to contact slurm controller (connect failure)"},
		failed + "Socket timed out on send/recv operation\n":                             {Is: cluster.Unclear, Why: "Socket timed out on send/recv operation"},
		failed + "Protocol authentication error\n":                                       {Is: cluster.Unclear, Why: "Protocol authentication error"},
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
		"17\n": "17", "17;gpurun\n": "17", "": "", "sbatch: error: x\n": "", "sbatch: some notice of the site\n18\n": "18", "Submitted batch job 17\n": "",
	})
}

func TestEndsFromSacct(t *testing.T) {
	rows, _ := readEnds("12_3|CANCELLED by 0|0:15|2026-11-22T12:00:00|node1\n12_4|RUNNING|0:0|Unknown|node1\n12|PENDING|0:0|Unknown|None assigned\n13_0|FAILED|3:0|2026-11-22T12:00:01|None assigned\n")
	want := []cluster.Row{
		{Job: "12", First: 3, Last: 3, State: cluster.Cancelled, Node: "node1", Raw: 15, Word: "CANCELLED by 0"},
		{Job: "13", State: cluster.Failed, Raw: 768, Word: "FAILED"},
	}
	if !slices.Equal(rows, want) {
		t.Errorf("got %+v, want %+v", rows, want)
	}
}

func TestArgsOfSbatch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ask     engine.Request
		limit   time.Duration
		options map[string]string
		want    string // or the beginning of the error
	}{
		{"no request", engine.Request{}, 0, nil, ""},
		{"GPUs", engine.Request{GPUs: 2, CPUs: 8, Memory: 3*gpu.GiB + 1}, 61 * time.Second, nil, "--gres=gpu:2 --cpus-per-task=8 --mem=3073M --time=2"},
		{"site options", engine.Request{GPUs: 1, Priority: -5}, 0, map[string]string{"partition": "p", "account": "a", "qos": "q", "constraint": "c", "extra": "--x=1\n--y"},
			"--partition=p --account=a --qos=q --gres=gpu:1 --constraint=c --nice=5 --x=1 --y"},
		{"excluded nodes", engine.Request{}, 0, map[string]string{"exclude": "node1,node2"}, "--exclude=node1,node2,small"},
		{"a model", engine.Request{GPUs: 1, Models: []string{"a100"}}, 0, map[string]string{"models.a100": "gpu:a100"}, "--gres=gpu:a100:1"},
		{"several models", engine.Request{GPUs: 1, Models: []string{"a100", "v100"}}, 0,
			map[string]string{"models.a100": "constraint=A", "models.v100": "constraint=V", "constraint": "ib"}, "--gres=gpu:1 --constraint=(ib)&(A|V)"},
		{"an unknown model", engine.Request{GPUs: 1, Models: []string{"h100"}}, 0, nil, "gpu_model: no name for \"h100\" on this cluster"},
		{"models of two GPU types", engine.Request{GPUs: 1, Models: []string{"a", "b"}}, 0, map[string]string{"models.a": "gpu:a", "models.b": "gpu:b"}, "gpu_model: Slurm accepts several models only as node features"},
		{"memory", engine.Request{GPUs: 1, GPUMemory: 20 * gpu.GiB}, 0, map[string]string{"models.a": "gpu:a 40GiB", "models.b": "gpu:b 16GiB", "models.c": "gpu:c 80GiB"}, "--gres=gpu:a:1"},
		{"memory by features", engine.Request{GPUs: 1, GPUMemory: 20 * gpu.GiB}, 0,
			map[string]string{"models.a": "gpu:a 40GiB", "models.b": "constraint=B 80GiB", "models.c": "gpu:c 8GiB"}, "--gres=gpu:1 --constraint=B"},
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

// With a filter in addition to tasks, scancel would end whole arrays.
func TestCancelUsesNoFilter(t *testing.T) {
	if got := (Dialect{}).Order(cluster.Cancel, []string{"1_2", "1_3"}, 0).Args; !slices.Equal(got, []string{"scancel", "-Q", "1_2", "1_3"}) {
		t.Errorf("got %q", got)
	}
}

func TestCommandToCancelByHand(t *testing.T) {
	heard(t, func(what string) string { return Dialect{}.ByHand(strings.Fields(what)) }, map[string]string{
		"17 18_2": "scancel 17 18_2", "17 gr-x-1 gr-x-2": "scancel 17; scancel -n gr-x-1; scancel -n gr-x-2", "gr-x-1": "scancel -n gr-x-1",
	})
}

func FuzzRows(f *testing.F) {
	text, _ := os.ReadFile("testdata/squeue.txt")
	f.Add(string(text))
	f.Add("12|N/A|PENDING|Priority||N/A|0|N/A|1|N/A|1|N/A|gpu|x|\n12|0-9:3,11%2|RUNNING|None|n1|2026-11-22T11:40:12|0|N/A|1|N/A|1|N/A|gpu|x|")
	f.Fuzz(func(t *testing.T, text string) {
		rows, _ := readRows(text)
		for _, r := range rows {
			if r.First < 0 || r.Last < r.First {
				t.Errorf("%+v", r)
			}
		}
		_, _ = readEnds(text)
		Dialect{}.Answer(text, text)
	})
}

func TestNodesFromSinfo(t *testing.T) {
	nodes, err := readNodes(
		"node1|gpu*|mixed|gpu:4|gpu:3|\nnode1|urgent|mixed|gpu:4|gpu:3|\nn2|big|idle|gpu:a100:8(S:0-1),gpu:t4:2|gpu:a100:0(IDX:N/A),gpu:t4:1(IDX:0)|\nlogin|cpu|idle|(null)|gpu:0|\n" +
			"\nnode1|ann|gres:gpu:2\nnode1|bob|gres:gpu:1\nnode1|ann|N/A\nnode[1-2]|ann|gres:gpu:4\n",
	)
	if err != nil || len(nodes) != 3 {
		t.Fatalf("got %+v, %v", nodes, err)
	}
	n := nodes[0]
	if n.GPUs != 4 || n.Used != 3 || !slices.Equal(n.Parts, []string{"gpu", "urgent"}) ||
		!slices.Equal(n.Occupants, []cluster.Occupant{{User: "ann", Jobs: 2, GPUs: 2}, {User: "bob", Jobs: 1, GPUs: 1}}) {
		t.Errorf("got %+v", n)
	}
	if nodes[1].GPUs != 10 || nodes[1].Used != 1 || nodes[2].GPUs != 0 {
		t.Errorf("got %+v", nodes[1:])
	}
	for state, want := range map[string]bool{"idle": true, "idle~": true, "mixed-": true, "idle*": false, "mixed$": false, "drained": false, "down*": false} {
		nodes, err := readNodes("n|gpu*|" + state + "|gpu:4|gpu:0|\n")
		if err != nil || nodes[0].Open != want {
			t.Errorf("%s: got %+v, %v, want open: %v", state, nodes, err, want)
		}
	}
	if _, err := readNodes("sinfo: error\n"); err == nil {
		t.Error("an error message was parsed as a list")
	}
}

func FuzzNodes(f *testing.F) {
	f.Add("node1|gpu*|mixed|gpu:a:4(S:0)|gpu:3|", "node1|ann|gres:gpu:2")
	f.Fuzz(func(t *testing.T, nodes, jobs string) { _, _ = readNodes(nodes + "\n\n" + jobs) })
}

// A job that requests more time than any of its partitions allows is refused. If a limit is unknown,
// Slurm decides.
func TestTimeAbovePartitionLimitIsRefused(t *testing.T) {
	const partitions = "gpu*|10:00\nlong|1-02:00:00\nday|4:00:00\nany|infinite\nodd|n/a\n"
	for _, tt := range []struct {
		args string
		want string
	}{
		{"--time=10", ""},
		{"--time=13", "--time=13 (cluster.time, or timeout plus grace plus 2 minutes) exceeds the limit of 10 minutes on partition gpu; shorten timeout by 3m,"},
		{"--partition=day --time=241", "the limit of 240 minutes on partition day; shorten timeout by 1m,"},
		{"--partition=gpu,long --time=1560", ""},
		{"--partition=gpu,long --time=1561", "the limit of 1560 minutes on partition long"},
		{"--partition=gpu,any --time=99999", ""},
		{"--partition=odd --time=99999", ""},
		{"--partition=nope --time=99999", ""},
		{"--partition=gpu --time=5 --time=11", "--time=11"},
		{"--time=xyz", ""},
	} {
		args := strings.Fields(tt.args)
		q := Dialect{}.Limits(args)
		if len(q.Args) == 0 {
			t.Errorf("%s: does not query the limits", tt.args)
			continue
		}
		if got, _ := q.Read(partitions); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
		if got, _ := q.Read(partitions + overrides + "\n"); got != "" {
			t.Errorf("%s: got %q although the user's default QOS may allow it", tt.args, got)
		}
	}
	for _, args := range []string{"", "--partition=gpu", "--time=99 --qos=long", "--time=99 --reservation=r", "--time=99 -plong"} {
		if c := (Dialect{}).Limits(strings.Fields(args)); len(c.Args) > 0 {
			t.Errorf("%s: queries the limits with %q", args, c.Args)
		}
	}
}

// A start in the distant future means that Slurm has no estimate.
func TestEstimateFromTestOnlyOutput(t *testing.T) {
	soon := time.Now().Add(2 * time.Hour)
	for text, want := range map[string]string{
		"sbatch: Job 9 to start at " + soon.Format("2006-01-02T15:04:05") + " using 1 processors on nodes node1 in partition gpu\n":       "at " + soon.Format("15:04 on 2 January"),
		"sbatch: Job 9 to start at " + time.Now().Format("2006-01-02T15:04:05") + " using 1 processors on nodes node1 in partition gpu\n": "now",
		"sbatch: Job 9 to start at 3048-08-28T15:11:54 using 1 processors on nodes node1 in partition urgent\n":                           "",
		"": "",
	} {
		if got, _ := readBegin(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
