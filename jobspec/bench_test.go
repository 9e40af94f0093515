package jobspec

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func writeJobFile(tb testing.TB, name, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		tb.Fatal(err)
	}
	return path
}

func mustLoad(tb testing.TB, paths ...string) *Batch {
	tb.Helper()
	b, problems := load(paths, Options{})
	if len(problems) > 0 {
		tb.Fatalf("problems:\n%s", problemText(problems[:min(len(problems), 10)]))
	}
	return b
}

func matrixFile(n int) string {
	return fmt.Sprintf(`
defaults: {log: "logs/{name}.log", timeout: 6h}
jobs:
  - name: "train-{dataset}-{algorithm}-s{seed}"
    matrix:
      dataset: [cifar10, svhn]
      algorithm: [fedavg, fedprox, scaffold, ours, fednova]
      seed: 1..%d
    run: python test.py --dataset {dataset} --algo {algorithm} --seed {seed} --out ckpt/{name}
    gpu_memory: 12GiB
    outputs: ["ckpt/{name}.pt"]
`, n/10)
}

func benchmarkLoad(b *testing.B, jobs int, content string) {
	path := writeJobFile(b, "jobs.yaml", content)
	b.ReportAllocs()
	for b.Loop() {
		if got := len(mustLoad(b, path).Jobs); got != jobs {
			b.Fatalf("%d jobs, want %d", got, jobs)
		}
	}
}

func BenchmarkLoadMatrix10k(b *testing.B)  { benchmarkLoad(b, 10_000, matrixFile(10_000)) }
func BenchmarkLoadMatrix100k(b *testing.B) { benchmarkLoad(b, 100_000, matrixFile(100_000)) }
func BenchmarkLoadMatrix1M(b *testing.B)   { benchmarkLoad(b, 1_000_000, matrixFile(1_000_000)) }

func chain(n int) string {
	var s strings.Builder
	s.WriteString("jobs:\n- {name: j0, run: \"true\"}\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&s, "- {name: j%d, run: \"true\", needs: [j%d]}\n", i, i-1)
	}
	return s.String()
}

func BenchmarkLoadChain100k(b *testing.B) { benchmarkLoad(b, 100_000, chain(100_000)) }

func BenchmarkLoadChain50k(b *testing.B) { benchmarkLoad(b, 50_000, chain(50_000)) }

func fanIn(n int) string {
	return fmt.Sprintf("jobs:\n- {name: \"a-{i}\", matrix: {i: 1..%d}, run: \"echo {i}\"}\n- {name: last, run: x, needs: [\"a-*\"]}\n", n)
}

func BenchmarkLoadFanIn100k(b *testing.B) { benchmarkLoad(b, 100_001, fanIn(100_000)) }
func BenchmarkLoadFanIn50k(b *testing.B)  { benchmarkLoad(b, 50_001, fanIn(50_000)) }

func bipartite(n int) string {
	return fmt.Sprintf("jobs:\n- {name: \"a-{i}\", matrix: {i: 1..%d}, run: \"echo {i}\"}\n- {name: \"b-{i}\", matrix: {i: 1..%d}, run: \"echo {i}\", needs: [\"a-*\"]}\n", n, n)
}

// 707 by 707 has half as many edges as 1,000 by 1,000.
func BenchmarkLoadBipartite1000(b *testing.B) { benchmarkLoad(b, 2000, bipartite(1000)) }
func BenchmarkLoadBipartite707(b *testing.B)  { benchmarkLoad(b, 1414, bipartite(707)) }

// With one pattern per job, matching every pattern against every name would take quadratic time.
const patterned = "jobs:\n- {name: \"a-{i}-x\", matrix: {i: 1..20000}, run: \"echo {i}\"}\n- {name: \"b-{i}\", matrix: {i: 1..20000}, run: \"echo {i}\", needs: [\"a-{i}-*\"]}\n"

func BenchmarkLoadPatterns20k(b *testing.B) { benchmarkLoad(b, 40_000, patterned) }

func TestMatrixJobsTakeLittleMemory(t *testing.T) {
	path := writeJobFile(t, "jobs.yaml", matrixFile(100_000))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := mustLoad(t, path)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := (after.HeapAlloc - before.HeapAlloc) / uint64(len(b.Jobs)); got > 700 {
		t.Errorf("%d bytes per job, want at most 700", got)
	} else {
		t.Logf("%d bytes per job", got)
	}
	runtime.KeepAlive(b)
}
