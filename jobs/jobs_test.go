// Package jobs_test checks the sample job files.
package jobs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/runner/files"
)

func TestSampleJobFilesLoad(t *testing.T) {
	for _, row := range []struct {
		file, dialect string
		jobs          int
		first         string // the command of the first job; "" to skip the check
		log           string // the log of the first job; "" to skip the check
	}{
		{"multi_seed.yaml", "native", 24, "sh jobs/train.sh --dataset cifar10 --algo fedavg --seed 42 --out jobs/ckpt/cifar10-fedavg-s42.pt", "logs/multi_seed/cifar10-fedavg-s42.log"},
		{"gamma_sensitivity.yaml", "native", 6, "sh jobs/train.sh --algo ours --dataset svhn --seed 42 --gamma_reg 0 --out jobs/ckpt/gamma-0.pt", "logs/gamma_sensitivity/gamma-0.log"},
		{"lambda_max_sensitivity.yaml", "native", 6, "", "logs/lambda_max_sensitivity/lambda-20.log"},
		{"tuned.yaml", "native", 12, "sh jobs/train.sh --dataset cifar10 --algo ours --seed 42 --out jobs/ckpt/tuned-cifar10-ours-s42.pt --gamma_reg 1e-3 --lambda_max 50", "logs/tuned/tuned-cifar10-ours-s42.log"},
		{"random_search.yaml", "native", 13, "", ""},
		{"results.yaml", "native", 18, "sh jobs/train.sh --seconds 0 --dataset cifar10 --algo fedavg --seed 42", ""},
		{"experiment_list.yaml", "experiment list", 4, "sh train.sh --cfp configs/temp/SVHN_seed42.yaml --algo ours --gamma_reg 0.001 --lambda_max 50", "jobs/logs/experiment_list/SVHN_ours_seed42.log"},
		{"command.txt", "block", 6, "sh jobs/train.sh --dataset cifar10 --seed 42 --out jobs/out/cifar10-42.pt", ""},
	} {
		t.Run(row.file, func(t *testing.T) {
			b, err := jobspec.Load([]string{row.file}, jobspec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Warnings) > 0 {
				t.Errorf("got warnings %v", b.Warnings)
			}
			if got := b.Files[0].Dialect; got != row.dialect || len(b.Jobs) != row.jobs {
				t.Errorf("got %s with %d jobs, want %s with %d", got, len(b.Jobs), row.dialect, row.jobs)
			}
			r, err := b.Render(&b.Jobs[0], jobspec.Runtime{UniID: "u", Attempt: 1, GPUs: []int{0}, Log: "/log"})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Commands[len(r.Commands)-1]; row.first != "" && got != row.first {
				t.Errorf("got command %q, want %q", got, row.first)
			}
			top, err := filepath.Abs("..")
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(top, row.log); row.log != "" && r.Stdout != want {
				t.Errorf("got log %q, want %q", r.Stdout, want)
			}
		})
	}
}

func TestTrainScript(t *testing.T) {
	for _, row := range []struct {
		name, mode string // of GPURUN_DEMO
		flags      string
		code       int
		oom        bool
	}{
		{"trains", "", "--seed 007", 0, false},
		{"by config", "", "--cfp configs/SVHN.yaml", 0, false},
		{"fails", "", "--fail", 1, false},
		{"fails because of the environment", "fail", "", 1, false},
		{"runs out of memory", "", "--oom", 1, true},
		{"unknown flag", "", "--sead 1", 2, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			out, result := filepath.Join(dir, "deep", "a.pt"), filepath.Join(dir, "result")
			args := append([]string{"train.sh", "--seconds", "0", "--out", out}, strings.Fields(row.flags)...)
			cmd := exec.Command("sh", args...)
			cmd.Env = append(os.Environ(), "GPURUN_RESULT="+result, "GPURUN_DEMO="+row.mode)
			log, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != row.code {
				t.Fatalf("got exit %d, want %d:\n%s", got, row.code, log)
			}
			if got := files.OutOfMemory(log); got != row.oom {
				t.Errorf("out of memory: got %v, want %v:\n%s", got, row.oom, log)
			}
			_, err := os.Stat(out)
			if made := err == nil; made != (row.code == 0) {
				t.Errorf("checkpoint written: %v (%v), want %v", made, err, row.code == 0)
			}
			left, err := files.Result(result, "", "")
			if err != nil || row.code == 0 && left.Metrics["accuracy"] == nil {
				t.Errorf("got metrics %v, %v", left.Metrics, err)
			}
		})
	}
}

func TestPipelineReportsState(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"train.sh", "pipeline.sh"} {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ id, flags, want string }{
		{"good", "--seconds 0", "normal_exit"},
		{"bad", "--fail", "abnormal_exit"},
	} {
		args := append([]string{filepath.Join(dir, "pipeline.sh"), "car196", "--uni_id", row.id}, strings.Fields(row.flags)...)
		// CombinedOutput returns when the background work has closed the output.
		if log, err := exec.Command("sh", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, log)
		}
		text, err := os.ReadFile(filepath.Join(dir, "logs", "uni_id.json"))
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]struct{ State string }
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if got := all[row.id].State; got != row.want {
			t.Errorf("%s: got %q, want %q", row.id, got, row.want)
		}
	}
}
