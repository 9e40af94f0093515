package hostsim

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	days  = flag.Int("hostsim.days", 1, "number of random days to simulate")
	seeds = flag.Int("hostsim.seeds", 1, "number of seeds for everything else")
	brief = flag.Bool("hostsim.brief", true, "simulate shorter days with fewer jobs")
	first = flag.Uint64("hostsim.first", 1, "the first seed")
	table = flag.String("hostsim.table", "", "file with the table to update; \"\" for none")
)

// TestFairness runs all simulations and checks each figure against its bound.
func TestFairness(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var texts [4]strings.Builder
	waiting(t, &texts[3])               // runs alone, because it measures CPU time
	t.Run("parts", func(t *testing.T) { // returns when all subtests have ended
		part := func(name string, i int, play func(t *testing.T, text *strings.Builder)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, &texts[i])
			})
		}
		part("days", 0, randomDays)
		part("mixed", 1, mixedDays)
		part("cheats", 2, cheaters)
	})
	all := ""
	for i := range texts {
		all += texts[i].String() + "\n"
	}
	t.Log("\n" + all)
	if *table != "" {
		updateTable(t, all)
	}
}

// above and below are the lines around the table in the file.
const above, below = "<!-- make fairness -->\n", "<!-- /make fairness -->\n"

func updateTable(t *testing.T, text string) {
	b, err := os.ReadFile(*table)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), above)
	_, after, ok2 := strings.Cut(rest, below)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", *table, above, below)
	}
	if err := os.WriteFile(*table, []byte(before+above+"\n"+text+below+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// each calls f for n seeds, several at a time, and returns the results in order.
func each[T any](n int, f func(seed uint64) T) []T {
	list := make([]T, n)
	var wg sync.WaitGroup
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for i := range n {
		wg.Add(1)
		slots <- true
		go func() {
			defer func() { <-slots; wg.Done() }()
			list[i] = f(*first + uint64(i))
		}()
	}
	wg.Wait()
	return list
}

func seedsFrom(n int) string {
	if n == 1 {
		return fmt.Sprintf("seed %d", *first)
	}
	return fmt.Sprintf("seeds %d to %d", *first, *first+uint64(n)-1)
}

func mean[T any](list []T, f func(T) float64) (sum float64) {
	for _, x := range list {
		sum += f(x)
	}
	return sum / float64(len(list))
}

func most[T any](list []T, f func(T) float64) float64 {
	return f(slices.MaxFunc(list, func(a, b T) int { return cmp.Compare(f(a), f(b)) }))
}

// bounded fails the test unless a figure is at most (or with least set, at least) its bound.
func bounded(t *testing.T, what string, figure, bound float64, least bool) {
	if least && figure < bound || !least && figure > bound || math.IsNaN(figure) {
		t.Errorf("%s: %.4g, the bound is %.4g", what, figure, bound)
	}
}

// An outcome is the result of a day under one scheduler.
type outcome struct {
	over                 bool
	beside, double       float64 // GPU seconds
	makespan, used, idle float64
}

func randomDays(t *testing.T, text *strings.Builder) {
	hows := []how{byPolling, byLoop, byCentral}
	list := each(*days, func(seed uint64) (outcomes [3]outcome) {
		for i, by := range hows {
			d := randomDay(seed, 8)
			h := d.play(seed, 8, by)
			m, from := &h.meter, time.Duration(math.MaxInt64)
			for _, b := range d.batches {
				from = min(from, time.Hour+b.at)
			}
			outcomes[i] = outcome{
				over: h.over(), beside: m.beside.Seconds(), double: m.double.Seconds(), used: m.share(), idle: m.idle.Hours(),
				makespan: float64(m.last-from) / float64(m.bound(d.arrivals(time.Hour))-from),
			}
		}
		return outcomes
	})
	fmt.Fprintf(text, "A day on 8 GPUs: three users submit batches, three start programs by hand (%d days, %s):\n\n", *days, seedsFrom(*days))
	fmt.Fprintf(text, "| | bound | gpurun | shell loop | central scheduler |\n|---|---:|---:|---:|---:|\n")
	row := func(what, bound, format string, limit float64, least bool, f func(o outcome) float64) {
		fmt.Fprintf(text, "| %s | %s |", what, bound)
		for i := range hows {
			v := mean(list, func(o [3]outcome) float64 { return f(o[i]) })
			if fmt.Fprintf(text, " "+format+" |", v); i == 0 {
				bounded(t, what, v, limit, least)
			}
		}
		text.WriteByte('\n')
	}
	row("GPU seconds per day of jobs started beside a stranger's visible process", "0", "%.0f", 0, false, func(o outcome) float64 { return o.beside })
	row("GPU hours per day of two jobs on one GPU", "0", "%.1f", 0, false, func(o outcome) float64 { return o.double / 3600 })
	row("time until all jobs have ended / its lower bound", "1.10", "%.3f", 1.10, false, func(o outcome) float64 { return o.makespan })
	row("GPU time used / GPU time that jobs could use", "97%", "%.2f%%", 97, true, func(o outcome) float64 { return 100 * o.used })
	for i, o := range list {
		if !o[0].over {
			t.Errorf("seed %d: jobs remain after four days", *first+uint64(i))
		}
	}
}

// A mixture is the result of a mixed day.
type mixture struct {
	off     float64 // maximum difference between a user's GPU time and that under the central scheduler
	longest float64 // longest time in ms that a GPU was idle while a job waited for it
	never   int     // 4-GPU jobs that did not start
	wide    float64 // seconds until a job on all GPUs starts, after the host's patience
}

func mixedDays(t *testing.T, text *strings.Builder) {
	mixedFor := fewer(hours(8))
	list := each(*seeds, func(seed uint64) (o mixture) {
		var by [2]*host
		for i, start := range []how{byGpurun, byCentral} {
			h := newHost(seed, 8)
			begin, d := start(h), mixedDay(seed)
			for _, b := range d.batches {
				h.after(b.at, func() { begin(b.uid, b.jobs) })
			}
			h.play(h.now + mixedFor)
			by[i] = h
		}
		all := 8 * mixedFor.Seconds()
		for uid := 1001; uid <= 1003; uid++ {
			o.off = max(o.off, math.Abs((by[0].meter.byUser[uid]-by[1].meter.byUser[uid]).Seconds())/all)
		}
		m := &by[0].meter
		o.longest = float64(m.longest.Milliseconds())
		for k := 0; k < 48 && !by[0].over(); k++ {
			by[0].play(by[0].now + time.Hour)
		}
		o.never = fewer(40) - len(m.starts[1003])
		o.wide = wide(seed)
		return o
	})
	fmt.Fprintf(text, "On 8 GPUs: one user with 1,000 jobs, one with 10 an hour, one with 40 four-GPU jobs (%s):\n\n", seedsFrom(*seeds))
	fmt.Fprintf(text, "| | bound | worst |\n|---|---:|---:|\n")
	row := func(what, bound, format string, limit float64, f func(o mixture) float64) {
		v := most(list, f)
		fmt.Fprintf(text, "| %s | %s | "+format+" |\n", what, bound, v)
		bounded(t, what, v, limit, false)
	}
	row("a user's GPU time, compared with a central scheduler without delay", "3%", "%.2f%%", 3, func(o mixture) float64 { return 100 * o.off })
	row("longest time that a GPU was idle while a job could use it", "200 ms", "%.0f ms", 200, func(o mixture) float64 { return o.longest })
	row("how many of the 40 jobs never started", "0", "%.0f", 0, func(o mixture) float64 { return float64(o.never) })
	longest := hours(3.0 / 60).Seconds()
	row("time until an 8-GPU job starts among endlessly many jobs of one to three minutes, after `patience`", fmt.Sprintf("%.0f s", longest+10), "%.0f s", longest+10, func(o mixture) float64 { return o.wide })
}

func cheaters(t *testing.T, text *strings.Builder) {
	fair := (rivalFor() / 4 * 8).Seconds() // GPU seconds of a fair fourth
	type figures struct{ cost, idle, double, share float64 }
	honest := each(*seeds, func(seed uint64) map[bool]float64 {
		return map[bool]float64{false: rivalry(seed, nil, false).honest(), true: rivalry(seed, nil, true).honest()}
	})
	list := each(*seeds*len(cheats), func(n uint64) figures {
		n -= *first
		c, k := &cheats[n%uint64(len(cheats))], n/uint64(len(cheats))
		h := rivalry(*first+k, c, false)
		m := &h.meter
		return figures{honest[k][c.works] - h.honest(), m.idle.Seconds(), m.double.Seconds(), m.byUser[cheater].Seconds() / fair}
	})
	fmt.Fprintf(text, "Two hours on 8 GPUs: three honest users with endless work, and a fourth who cheats (%s; a quarter of the total is %.0f GPU seconds):\n\n", seedsFrom(*seeds), fair)
	fmt.Fprintf(text, "| the fourth user | cost to the others, GPU s | bound | idle, GPU s | fraction of a fair share |\n|---|---:|---:|---:|---:|\n")
	for i, c := range cheats {
		worst := func(f func(x figures) float64) (v float64) {
			for k := i; k < len(list); k += len(cheats) {
				v = max(v, f(list[k]))
			}
			return v
		}
		cost, share := worst(func(x figures) float64 { return x.cost }), worst(func(x figures) float64 { return x.share })
		most := c.most
		if *brief {
			most = min(most/2, 4*fair) // not in proportion to time: the number of jobs that end matters more
		}
		fmt.Fprintf(text, "| %s | %.0f | %.0f | %.0f | %.2f |\n", c.name, math.Max(cost, 0), most, worst(func(x figures) float64 { return x.idle }), share)
		bounded(t, "a user who "+c.name+": cost to the others", cost, most, false)
		bounded(t, "a user who "+c.name+": fraction of a fair share", share, c.gets, false)
		bounded(t, "a user who "+c.name+": two jobs on one GPU", worst(func(x figures) float64 { return x.double }), 0, false)
	}
}
