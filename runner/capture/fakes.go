package capture

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/source"
)

//go:embed fakes
var scripts embed.FS

// fakes replace programs that wait, query GPUs or start other programs.
var fakes map[string]func(argv []string) int

func init() {
	fakes = map[string]func([]string) int{"sleep": sleep, "squeue": sleep, "sinfo": sleep, "scancel": sleep, "sacct": sleep, "nvidia-smi": script, "simple_gpu_scheduler": script,
		"sbatch": script, "srun": script, "salloc": script, "scontrol": script, "ts": script, "tsp": script, "gpurun-submit": submit, "gpurun-wait": wait, "screen": terminal, "tmux": terminal}
}

// script runs a fake that is a shell script.
func script(argv []string) int {
	name := filepath.Base(argv[0])
	if slices.Contains([]string{"sbatch", "srun", "salloc", "scontrol"}, name) {
		name = "slurm"
	}
	name = strings.Replace(name, "tsp", "ts", 1)
	text, _ := scripts.ReadFile("fakes/" + name + ".sh")
	return runs(append([]string{"sh", "-c", string(text)}, argv...), false)
}

// terminal passes a tmux or screen command to the host, and prints the host's answer.
func terminal(argv []string) int {
	a := ask(own("terminal", argv))
	fmt.Fprint([]*os.File{os.Stdout, os.Stderr}[min(a.Status, 1)], a.Text)
	return a.Status
}

// sleep waits in virtual time, as a launcher does between two polls.
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

// submit tells the host to start a command once other jobs have ended. It submits an array's command
// once for each index. It prints the ID of the job or array.
func submit(argv []string) int {
	h := own("submit", argv[3:])
	h.After = ids(argv[1])
	indexes := ids(argv[2])
	for _, i := range indexes {
		h.Record.Env = append(os.Environ(), fmt.Sprint(taskID, "=", i))
		h.Group = ask(h).Group
	}
	if len(indexes) == 0 {
		h.Group = ask(h).Group
	}
	fmt.Println(h.Group)
	return 0
}

// wait waits until submitted jobs have ended.
func wait(argv []string) int {
	ask(message{Op: "wait", PID: os.Getpid(), After: ids(strings.Join(argv[1:], " "))})
	return 0
}

// ids returns the job IDs in text.
func ids(text string) (list []int) {
	for _, n := range regexp.MustCompile(`\d+`).FindAllString(text, -1) {
		id, _ := strconv.Atoi(n)
		list = append(list, id)
	}
	return list
}
