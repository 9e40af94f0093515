package cluster

import (
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/engine"
)

func TestGPUsOfOtherTasksAreSeparated(t *testing.T) {
	seen := []probe.Metered{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}, {Index: 2, UUID: "GPU-c"}}
	for _, tt := range []struct {
		name        string
		ids         []int
		uuids       []gpu.UUID
		own, others []probe.Metered
	}{
		{"by number", []int{2, 0}, nil, []probe.Metered{seen[2], seen[0]}, seen[1:2]},
		{"by UUID", nil, []gpu.UUID{"GPU-b"}, seen[1:2], []probe.Metered{seen[0], seen[2]}},
		{"as many as are visible", []int{5, 6, 7}, nil, seen, nil},
		{"not visible", []int{5}, nil, nil, nil},
		{"a part of a GPU, while only whole GPUs are visible", nil, []gpu.UUID{"MIG-x"}, nil, nil},
		{"without GPUs", nil, nil, nil, seen},
	} {
		if own, others := apart(seen, tt.ids, tt.uuids); !reflect.DeepEqual(own, tt.own) || !reflect.DeepEqual(others, tt.others) {
			t.Errorf("%s: got %+v and %+v", tt.name, own, others)
		}
	}
}

// stray must find a process of the attempt on a GPU outside its grant. The result is certain if the
// cluster reports the task's GPUs by UUID, or granted none.
func TestStrayProcessIsFound(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"GPURUN_UNI_ID=u1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	on := func(pid int, doubtful bool) probe.Metered {
		return probe.Metered{Index: 3, UUID: "GPU-d", Processes: []gpu.Process{{PID: os.Getpid()}, {PID: pid, Command: "python", Doubtful: doubtful}}}
	}
	for _, tt := range []struct {
		name   string
		job    string
		on     probe.Metered
		to     task
		gpus   int
		text   bool
		sure   bool
		starts string
	}{
		{"by UUID", "u1", on(cmd.Process.Pid, false), task{GPUs: []int{0}, UUIDs: []gpu.UUID{"GPU-a"}}, 1, true, true, "but the job was assigned GPU 0;"},
		{"by number", "u1", on(cmd.Process.Pid, false), task{GPUs: []int{0, 2}}, 2, true, false, "but the job was assigned GPU 0,2;"},
		{"none", "u1", on(cmd.Process.Pid, false), task{}, 0, true, true, "but the job was assigned no GPU;"},
		{"another pid namespace", "u1", on(cmd.Process.Pid, true), task{}, 0, true, false, "python"},
		{"another attempt", "u2", on(cmd.Process.Pid, false), task{}, 0, false, false, ""},
	} {
		var g nodeUsage
		g.add(nil, []probe.Metered{tt.on})
		tt.to.Host = "node1"
		text, sure := g.stray(&engine.Launch{Identity: engine.Identity{UniID: tt.job}, Request: &engine.Request{GPUs: tt.gpus}}, &tt.to)
		if (text != "") != tt.text || sure != tt.sure || !strings.Contains(text, tt.starts) {
			t.Errorf("%s: got %q, sure %v", tt.name, text, sure)
		}
	}
}

// The outer process keeps the peaks of its GPU readings. The keeper receives them between other
// messages, keeps the last report, and refuses GPUs that are too small.
func TestKeeperReceivesReadings(t *testing.T) {
	var g nodeUsage
	g.add([]probe.Metered{{Total: 16 * gpu.GiB, Used: 0}, {Total: 24 * gpu.GiB, Used: -1}}, nil)
	g.add([]probe.Metered{{Total: 16 * gpu.GiB, Used: gpu.GiB}, {Total: 24 * gpu.GiB, Used: 3}}, nil)
	g.add([]probe.Metered{{Total: 16 * gpu.GiB, Used: 5}, {Total: -1, Used: -1}}, nil)
	if g.Readings != 2 || !slices.Equal(g.Peaks, []gpu.Peak{{Used: gpu.GiB, Total: 16 * gpu.GiB}, {Used: 3, Total: 24 * gpu.GiB}}) {
		t.Errorf("got %+v", g)
	}
	from, to := io.Pipe()
	o := newOuter(from)
	go func() {
		report{End: true}.send(to)
		report{Usage: &nodeUsage{}}.send(to)
		report{End: true}.send(to)
		report{Usage: &nodeUsage{Peaks: []gpu.Peak{{Used: 7, Total: 16 * gpu.GiB}}, Readings: 2}}.send(to)
		_ = to.Close()
	}()
	ends := 0
	for range o.ends {
		ends++
	}
	<-o.gauged
	peaks, n := o.peaks()
	if ends != 2 || n != 2 || len(peaks) != 1 || peaks[0].Used != 7 {
		t.Errorf("got %d ends, peaks %+v, %d readings", ends, peaks, n)
	}
	on := &task{Host: "node1", GPUs: []int{0}}
	for ask, want := range map[gpu.Bytes]string{0: "", 16 * gpu.GiB: "", 24 * gpu.GiB: "node1 assigned a GPU with 16 GiB, but the job needs 24 GiB"} {
		if why, _ := o.unfit(&engine.Launch{Request: &engine.Request{GPUs: 1, GPUMemory: ask}}, on); why != want {
			t.Errorf("%v: got %q, want %q", ask, why, want)
		}
	}
}

func TestSuitableModelsHaveEnoughMemory(t *testing.T) {
	table := map[string]string{"models.a100": "gpu:a100 40GiB", "models.h100": "constraint=H 80GiB", "models.v100": "gpu:v100 16GiB", "models.x": "gpu:x"}
	for _, tt := range []struct {
		name    string
		ask     engine.Request
		want    string // names, or the beginning of the error
		vouched bool
	}{
		{"less than any model has", engine.Request{GPUMemory: 8 * gpu.GiB}, "", false},
		{"more than one model has", engine.Request{GPUMemory: 20 * gpu.GiB}, "a100 h100", true},
		{"as much as the largest has", engine.Request{GPUMemory: 80 * gpu.GiB}, "h100", true},
		{"more than the largest has", engine.Request{GPUMemory: 81 * gpu.GiB}, "gpu_memory: the job needs 81 GiB, but the largest matching model, h100", false},
		{"named models", engine.Request{Models: []string{"h100", "v100"}, GPUMemory: 8 * gpu.GiB}, "v100 h100", true},
		{"more than the named models have", engine.Request{Models: []string{"a100", "v100"}, GPUMemory: 81 * gpu.GiB}, "gpu_memory: the job needs 81 GiB, but the largest matching model, a100", false},
		{"more than one of the named models has", engine.Request{Models: []string{"h100", "v100"}, GPUMemory: 20 * gpu.GiB}, "h100", true},
		{"a model without a memory size", engine.Request{Models: []string{"x"}, GPUMemory: 20 * gpu.GiB}, "x", false},
		{"a model that is not in the table", engine.Request{Models: []string{"y"}}, "gpu_model: no name for \"y\" on this cluster", false},
	} {
		a := JobRequest{Request: tt.ask}
		a.Options = table
		models, err := a.Suitable()
		var names []string
		for _, m := range models {
			names = append(names, m.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
			if tt.want != "" {
				got = got[:min(len(got), len(tt.want))]
			}
		}
		if got != tt.want || a.vouched() != tt.vouched {
			t.Errorf("%s: got %q, vouched %v, want %q", tt.name, got, a.vouched(), tt.want)
		}
	}
	if most := (JobRequest{Request: engine.Request{Options: table}}).Largest(); most != 80*gpu.GiB {
		t.Errorf("the largest model has %v, want 80 GiB", most)
	}
}
