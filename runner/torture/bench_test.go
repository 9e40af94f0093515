package torture

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The simulated GPUs shared by all lanes.
const (
	gpuCount  = 4
	gpuMemory = 24 // GiB
)

// A place is where lanes run, with one simulation and one journal.
type place struct {
	dir      string
	sim      string
	gpus     []string // flags that select the GPUs
	settings []string // additional environment variables of runners
	journal  string
	mark     string // in the environment of all its processes
	still    *stills
}

//go:embed job.sh
var jobScript string

//go:embed chain.sh
var chainScript string

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{dir: t.TempDir(), still: watchStills(t)}
	p.sim, p.journal = filepath.Join(p.dir, "gpus.yaml"), filepath.Join(p.dir, "journal")
	p.gpus = []string{"--sim", p.sim}
	p.mark = fmt.Sprintf("TORTURE_MARK=%d-%s", os.Getpid(), filepath.Base(p.dir)+filepath.Base(filepath.Dir(p.dir)))
	p.write(t, "gpus.yaml", fmt.Sprintf("gpus:\n  - {memory: %dGiB, count: %d}\n", gpuMemory, gpuCount))
	p.write(t, "job.sh", jobScript) // every user in a test can read it
	p.write(t, "chain.sh", chainScript)
	p.mkdir(t, "claims")
	p.mkdir(t, "runtime")
	t.Cleanup(func() { killMarked(p.mark) })
	return p
}

func (p *place) write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *place) mkdir(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// environ returns the environment of the runners.
func (p *place) environ() []string {
	env := append(slices.Clone(p.settings), p.mark, "GPURUN_SIM_HERE=1", "GPURUN_CLAIMS_DIR="+filepath.Join(p.dir, "claims"), "HOME="+p.dir, "XDG_RUNTIME_DIR="+filepath.Join(p.dir, "runtime"))
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "GPURUN_STATE_DIR", "GPURUN_CLAIMS_DIR", "HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "CUDA_VISIBLE_DEVICES":
		default:
			env = append(env, kv)
		}
	}
	return env
}

// A job is one job of a batch. Its plan lists the outcomes of its attempts.
type job struct {
	Name   string
	Kind   string // plain, share, daemon, traceless, chain
	GPUs   int
	Memory int // GiB
	Plan   string
	Sleep  float64
	Retry  int
}

// someJobs returns a random batch. About three of eight jobs fail before they succeed.
func someJobs(rng *rand.Rand, n int) []job {
	plans := []string{"0", "0", "0", "0", "3 0", "k 0", "1 7 0", "0"}
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = job{
			Name: fmt.Sprintf("j%02d", i), Kind: "plain", GPUs: 1, Memory: 6 + rng.IntN(10),
			Plan: plans[rng.IntN(len(plans))], Sleep: float64(rng.IntN(150)) / 1000, Retry: rng.IntN(3),
		}
		switch rng.IntN(8) {
		case 0:
			jobs[i].GPUs = 2
		case 1, 2:
			jobs[i].Kind = "share"
		case 3:
			jobs[i].Kind = "daemon"
		case 4:
			jobs[i].GPUs = rng.IntN(2)
		case 5:
			jobs[i].Kind = []string{"traceless", "chain"}[rng.IntN(2)]
		}
	}
	return jobs
}

// jobFile returns the batch's job file.
func (p *place) jobFile(jobs []job, journal, counts, lane string) string {
	var b strings.Builder
	b.WriteString("settings: {grace: 1s, poll: 1s, breaker: 0}\njobs:\n")
	for _, j := range jobs {
		fmt.Fprintf(&b, "  - name: %s\n    run: . %q\n    leftovers: kill\n    gpus: %d\n    retry: {max: %d}\n", j.Name, filepath.Join(p.dir, "job.sh"), j.GPUs, j.Retry)
		if j.GPUs > 0 {
			fmt.Fprintf(&b, "    gpu_memory: %dGiB\n    share: %v\n", j.Memory, j.Kind == "share")
		}
		fmt.Fprintf(&b, "    env: {LANE: %q, JOURNAL: %q, COUNTS: %q, PLAN: %q, SLEEP: %q, KIND: %s, CHAIN: %q, MEMORY: \"%d\", GPU_LIST: \"{gpu_list}\"}\n",
			lane, journal, counts, j.Plan, fmt.Sprint(j.Sleep), j.Kind, filepath.Join(p.dir, "chain.sh"), j.Memory)
	}
	return b.String()
}
