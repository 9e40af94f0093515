package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"gpurun/runner/engine"
	"gpurun/state"
)

const atOnce = 2

// BenchmarkKeeper runs trivial jobs, two at a time, through the keeper, including their records and
// logs.
func BenchmarkKeeper(b *testing.B) {
	dir := b.TempDir()
	l, err := openLocal(engine.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	started, journal := 0, filepath.Join(dir, "run"+state.JournalSuffix)
	if err := os.WriteFile(journal, nil, 0o644); err != nil {
		b.Fatal(err)
	}
	start := func() {
		if started >= b.N {
			return
		}
		started++
		id := fmt.Sprintf("%08d", started)
		log := filepath.Join(dir, id+".log")
		l.Launch(engine.Launch{
			Identity: engine.Identity{UniID: id, Dir: filepath.Join(dir, id)}, Slot: state.Slot{Journal: journal, N: started % 100},
			Command: engine.Command{Shell: []string{"sh", "-c"}, Commands: []string{":"}, Env: append(os.Environ(), "GPURUN_UNI_ID="+id), WorkDir: dir},
			Output:  engine.Output{Stdout: log, Stderr: log},
		})
	}
	b.ResetTimer()
	for range atOnce {
		start()
	}
	for n := 0; n < b.N; {
		if ev := <-l.Events(); ev.Ended != nil {
			if ev.Ended.ExitCode != 0 {
				b.Fatalf("%+v", *ev.Ended)
			}
			n++
			start()
		}
	}
}

// BenchmarkOsExec runs the same jobs, two at a time, as plain children with a log each.
func BenchmarkOsExec(b *testing.B) {
	dir := b.TempDir()
	var wg sync.WaitGroup
	jobs := make(chan int)
	for range atOnce {
		wg.Go(func() {
			for i := range jobs {
				f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
				if err != nil {
					b.Error(err)
					continue
				}
				cmd := exec.Command("sh", "-c", ":")
				cmd.Stdout, cmd.Stderr, cmd.Dir = f, f, dir
				if err := cmd.Run(); err != nil {
					b.Error(err)
				}
				f.Close()
			}
		})
	}
	b.ResetTimer()
	for i := range b.N {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
}
