package capture

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"gpurun/jobspec/source"
)

//go:embed fakes
var scripts embed.FS

// fakes replace programs that wait, look at GPUs or start other programs.
var fakes map[string]func(argv []string) int

func init() {
	fakes = map[string]func([]string) int{"sleep": sleep, "squeue": sleep, "sinfo": sleep, "scancel": sleep, "sacct": sleep, "nvidia-smi": script, "simple_gpu_scheduler": script,
		"sbatch": script, "srun": script, "gpurun-submit": submit, "ts": refuse, "tsp": refuse, "screen": refuse, "tmux": refuse}
}

// script runs a fake that is a shell script.
func script(argv []string) int {
	name := filepath.Base(argv[0])
	if name == "sbatch" || name == "srun" {
		name = "slurm"
	}
	text, _ := scripts.ReadFile("fakes/" + name + ".sh")
	return runs(append([]string{"sh", "-c", string(text)}, argv...), false)
}

// refuse stops the launcher, because gpurun cannot see what this program starts.
func refuse(argv []string) int {
	ask(message{Op: "refuse", Record: Record{Argv: argv}})
	return 1
}

// sleep lets virtual time pass, as between two polls.
func sleep(argv []string) int {
	s := 0.0
	for _, w := range argv[1:] {
		n, _ := strconv.ParseFloat(w, 64)
		d, _ := source.ParseDuration(w)
		s += min(n, 1e9) + d.Seconds()
	}
	ask(message{Op: "sleep", PID: os.Getpid(), Seconds: s})
	return 0
}

// submit tells the host to start a command after other jobs. It prints the ID of the job, or of its
// array.
func submit(argv []string) int {
	group, _ := strconv.Atoi(argv[1])
	h := message{Op: "submit", Group: group, Record: Record{Argv: argv[3:], Env: os.Environ(), Dir: link("/proc/self/cwd")}}
	for _, n := range regexp.MustCompile(`\d+`).FindAllString(argv[2], -1) {
		id, _ := strconv.Atoi(n)
		h.After = append(h.After, id)
	}
	fmt.Println(ask(h).Group)
	return 0
}
