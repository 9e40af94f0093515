package jobspec

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gpurun/gpu"
)

func TestRenderReplacesAllVariables(t *testing.T) {
	t.Setenv("DATA", "/data")
	path := writeJobFile(t, "jobs.yaml", `
settings: {work_dir: ..}
jobs:
  - name: "j-{lr}"
    params: {lr: 1e-5, tag: "a b"}
    run:
      - echo {work_dir} {gpu_list}
      - python t.py --lr {lr}
    args: {tag: "{tag}", amp: true, off: false, none: null, id: "{uni_id}"}
    env: {PORT: "{port}", GONE: null, NONE: ~}
    work_dir: sub
    outputs: ["ckpt/{name}.pt", "$DATA/x"]
    inputs: "/in/*.csv"
    log: "logs/{name}-{attempt}.log"
`)
	b := mustLoad(t, path)
	got, err := b.Render(&b.Jobs[0], Runtime{UniID: "u-1", Attempt: 2, GPUs: []int{1, 3}, Port: 4711, Log: "/state/j.log"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(filepath.Dir(path)), "sub")
	want := Rendered{
		Commands: []string{"echo " + dir + " 1,3", "python t.py --lr 1e-5 --tag 'a b' --amp --id u-1"},
		WorkDir:  dir,
		Env:      []string{"GPURUN_PARAM_LR=1e-5", "GPURUN_PARAM_TAG=a b", "PORT=4711"},
		Stdout:   dir + "/logs/j-1e-5-2.log",
		Stderr:   dir + "/logs/j-1e-5-2.log",
		Outputs:  []string{dir + "/ckpt/j-1e-5.pt", "/data/x"},
		Inputs:   []string{"/in/*.csv"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// gpurun plan replaces parameters and args, and keeps variables that only an attempt has.
func TestCommandsKeepRuntimeVariables(t *testing.T) {
	b := mustLoad(t, writeJobFile(t, "jobs.yaml", "jobs: [{name: \"j-{s}\", params: {s: 007}, run: [\"cd {work_dir}\", \"x {s} {gpu} {name}\"], args: {lr: 1e-5, amp: true}}]\n"))
	got, want := b.Commands(&b.Jobs[0]), []string{"cd {work_dir}", "x 007 {gpu} j-007 --lr 1e-5 --amp"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExperimentCommand(t *testing.T) {
	path := writeJobFile(t, "jobs.yaml", listSample)
	base := "lr: 0.1\nseed: 1 # of all\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "SVHN.yaml"), []byte(base), 0o666); err != nil {
		t.Fatal(err)
	}
	b := mustLoad(t, path)
	r, err := b.Render(&b.Jobs[0], Runtime{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	want := []string{"python test.py --cfp temp/SVHN_seed42.yaml --algo ours --gamma_reg 0.001 --lambda_max 50"}
	if !reflect.DeepEqual(r.Commands, want) || r.Stdout != dir+"/logs/SVHN_ours_seed42.log" {
		t.Errorf("got %q with log %s, want %q", r.Commands, r.Stdout, want)
	}
	if r.Config == nil || r.Config.Path != dir+"/temp/SVHN_seed42.yaml" || string(r.Config.Content) != strings.Replace(base, "seed: 1", "seed: 42", 1) {
		t.Errorf("got config %+v", r.Config)
	}
	q := b.Jobs[0].Spec.Request
	if !q.Share || q.MaxUtil != 30 || !q.UtilOnOwn {
		t.Errorf("got request %+v, want a shared GPU with a limit of 30%%", q)
	}
	b, problems := load([]string{path}, Options{Flags: map[string]string{"seed-as": "argument", "program": "python run.py"}})
	if b == nil {
		t.Fatal(problemText(problems))
	}
	r, err = b.Render(&b.Jobs[0], Runtime{})
	want = []string{"python run.py --cfp SVHN.yaml --algo ours --seed 42 --gamma_reg 0.001 --lambda_max 50"}
	if err != nil || !reflect.DeepEqual(r.Commands, want) || r.Config != nil {
		t.Errorf("got %q, %v, want %q", r.Commands, err, want)
	}
}

func TestConfigBaseMayUseWorkDir(t *testing.T) {
	path := writeJobFile(t, "jobs.yaml", "jobs: [{name: a, run: \"x {config}\", config: {base: \"{work_dir}/c.yaml\", path: \"{work_dir}/o/{name}.yaml\", set: {lr: 2}}}]\n")
	dir := filepath.Dir(path)
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("lr: 1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	b := mustLoad(t, path)
	r, err := b.Render(&b.Jobs[0], Runtime{})
	if err != nil || r.Config.Path != dir+"/o/a.yaml" || string(r.Config.Content) != "lr: 2\n" {
		t.Errorf("got %+v, %v", r.Config, err)
	}
}

func TestConfigCopyIsNextToItsBase(t *testing.T) {
	path := writeJobFile(t, "jobs.yaml", "jobs: [{name: a, params: {lr: 1e-5}, run: \"x {config}\", config: {base: c.yaml, set: {lr: \"{lr}\"}}}]\n")
	dir := filepath.Dir(path)
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("lr: 1 # rate\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	b := mustLoad(t, path)
	r, err := b.Render(&b.Jobs[0], Runtime{})
	if err != nil {
		t.Fatal(err)
	}
	if ok, _ := filepath.Match(dir+"/.c.????????????????.gpurun.yaml", r.Config.Path); !ok || r.Commands[0] != "x "+r.Config.Path {
		t.Errorf("got the copy %s and the command %q", r.Config.Path, r.Commands)
	}
	if got, want := string(r.Config.Content), "lr: 1.0e-05 # rate\n"; got != want {
		t.Errorf("the copy contains %q, want %q", got, want)
	}
}

func TestCheckDevicesReportsImpossibleJobs(t *testing.T) {
	devs := []gpu.Device{
		{Index: 0, UUID: "GPU-a", Name: "NVIDIA A100", Total: 40 * gpu.GiB},
		{Index: 1, UUID: "GPU-b", Name: "NVIDIA T4", Total: 16 * gpu.GiB},
	}
	for _, test := range []struct{ name, job, want string }{
		{"fits", "gpu_memory: 40GiB", ""},
		{"too much memory", "gpu_memory: 41GiB", "the largest GPU has 40 GiB"},
		{"too many", "gpus: 3", "this machine has 2"},
		{"too many of that size", "{gpus: 2, gpu_memory: 20GiB}", "only 1 suitable GPU"},
		{"at least one of up to four", "gpus: 1-4", ""},
		{"no such model", "gpu_model: h100", "no GPU here matches h100"},
		{"too small a model", "{gpu_model: t4, gpu_memory: 20GiB}", "the largest GPU has 16 GiB"},
		{"no such id", "gpu_ids: 5", `gpu_ids: no GPU here matches "5": this machine has 0 (GPU-a), 1 (GPU-b)`},
		{"without GPUs", "gpus: 0", ""},
		{"instances do not count as GPUs", "{gpus: 3, gpu_memory: 5GiB}", "needs 3 GPUs, but this machine has only 2 suitable GPUs; GPU 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			keys := strings.Trim(test.job, "{}")
			b := mustLoad(t, writeJobFile(t, "jobs.yaml", "jobs: [{run: x, "+keys+"}]\n"))
			all := devs
			if strings.HasPrefix(test.name, "instances") {
				all = append(all, gpu.Device{Index: 2, UUID: "MIG-c", Name: "NVIDIA A100 MIG", Total: 10 * gpu.GiB, MIG: true, Parent: "GPU-c"})
			}
			got := b.CheckDevices(gpu.NewPool(all, gpu.Rules{MinGPUs: -1, MaxGPUs: -1}), nil)
			if (len(got) == 0) != (test.want == "") || len(got) > 0 && !strings.Contains(got[0].Text, test.want) {
				t.Errorf("got %v, want %q", got, test.want)
			}
		})
	}
}
