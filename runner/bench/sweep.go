package main

import (
	"fmt"
	"math"
	"time"
)

var nan = math.NaN()

// The jobs of jobs/multi_seed.yaml, and GPUs for them.
const sweepJobs, sweepGPUs = 24, 4

// sweep says what the gap is worth: the 24 jobs of jobs/multi_seed.yaml on four
// GPUs, handed over with the measured gap, beside a loop that looks for a free GPU
// every 30 s, as the tools in use do. Hours of GPUs that stood idle while jobs
// waited, with jobs of one to two hours.
func (b *bench) sweep(gap time.Duration) {
	length := func(i int) time.Duration {
		return time.Hour + time.Duration(i*37%60)*time.Minute + time.Duration(i*13%60)*time.Second
	}
	ours := idle(sweepJobs, sweepGPUs, length, func(end time.Duration) time.Duration { return end + gap })
	const poll = 30 * time.Second
	theirs := idle(sweepJobs, sweepGPUs, length, func(end time.Duration) time.Duration { return (end/poll + 1) * poll })
	b.note("The sweep of jobs/multi_seed.yaml (%d jobs of one to two hours on %d GPUs): a loop that polls every 30 s leaves\n"+
		"GPUs idle for %s while jobs wait, gpurun for %s: %.3f GPU hours saved.",
		sweepJobs, sweepGPUs, theirs.Round(time.Second), ours.Round(time.Millisecond), (theirs - ours).Hours())
	b.shown("3 idle in the 24-job sweep", fmt.Sprintf("%.5f GPU h", ours.Hours()), fmt.Sprintf("30 s poll %.3f GPU h", theirs.Hours()), nan)
}

// idle is the time for which GPUs stand idle between two jobs when each is given
// its next job at the time that next says.
func idle(jobs, gpus int, length func(int) time.Duration, next func(end time.Duration) time.Duration) time.Duration {
	ends := make([]time.Duration, gpus)
	var sum time.Duration
	for i := range jobs {
		first := 0
		for g := range ends {
			if ends[g] < ends[first] {
				first = g
			}
		}
		begin := ends[first]
		if i >= gpus {
			begin = next(ends[first])
		}
		sum += begin - ends[first]
		ends[first] = begin + length(i)
	}
	return sum
}
