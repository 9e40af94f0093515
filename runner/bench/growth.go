package main

import (
	"bytes"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// growth is figure 5: what one event costs the scheduler while few and many jobs
// wait, and that graphs are built in linear time.
func (b *bench) growth() error {
	steps, err := goBench("./runner/sched", "^BenchmarkStep$", "2000x")
	if err != nil {
		return err
	}
	few, many := steps["BenchmarkStep/waiting=100"]["ns/step"], steps["BenchmarkStep/waiting=1000000"]["ns/step"]
	b.atMost("5 Step, 1,000,000 waiting", micros(many), "100 waiting "+micros(few), many/few, 3)
	graphs, err := goBench("./jobspec", "^BenchmarkLoad(Chain|FanIn|Bipartite)", "1s")
	if err != nil {
		return err
	}
	for _, g := range []struct{ name, bench, half string }{
		{"chain of 100,000", "BenchmarkLoadChain100k", "BenchmarkLoadChain50k"},
		{"fan of 100,000 into one", "BenchmarkLoadFanIn100k", "BenchmarkLoadFanIn50k"},
		{"1,000 × 1,000", "BenchmarkLoadBipartite1000", "BenchmarkLoadBipartite707"},
	} {
		whole, half := graphs[g.bench]["ns/op"], graphs[g.half]["ns/op"]
		// Twice as much in twice the time is 1; a square would be 2.
		b.atMost("5 graph, "+g.name, millis(time.Duration(whole)), "half of it "+millis(time.Duration(half)), whole/half/2, 1.5)
	}
	return nil
}

// snapshots counts what the loop reads in ten minutes of virtual time.
func (b *bench) snapshots() error {
	cmd := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestTenMinutesOfWaiting$", "./runner")
	out, err := cmd.CombinedOutput()
	found := counts.FindAllStringSubmatch(string(out), -1)
	if len(found) != 2 {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	for i, name := range []string{"4 snapshots in 10 virtual minutes", "4 the same, nothing ready"} {
		n, _ := strconv.Atoi(found[i][1])
		most, _ := strconv.Atoi(found[i][2])
		b.under(name, strconv.Itoa(n), fmt.Sprintf("≤ %d", most), n <= most)
	}
	return nil
}

var counts = regexp.MustCompile(`snapshots (\d+), at most (\d+)`)

// goBench runs Go benchmarks and returns their metrics by name and unit.
func goBench(pkg, pattern, count string) (map[string]map[string]float64, error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", pattern, "-benchtime", count, pkg)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out, said.String())
	}
	return parseBench(string(out)), nil
}

// parseBench reads what go test prints: a name with the number of processors
// behind a dash, a count, then values each with its unit.
func parseBench(out string) map[string]map[string]float64 {
	found := map[string]map[string]float64{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := f[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		found[name] = map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				found[name][f[i+1]] = v
			}
		}
	}
	return found
}

func micros(ns float64) string {
	if math.IsNaN(ns) {
		return ""
	}
	return fmt.Sprintf("%.1f µs", ns/1e3)
}
