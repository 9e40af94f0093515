package runner

import (
	"fmt"

	"gpurun/gpu"
	"gpurun/runner/sched"
)

// warn gives warnings, each only once per run.
func (l *loop) warn(warnings []string) {
	for _, w := range warnings {
		if l.said[w] {
			continue
		}
		l.said[w] = true
		l.say(w)
	}
}

// say gives a warning: in run.log, to the sinks at once, and in the summary.
func (l *loop) say(text string) {
	l.Log.Warn().Msg(text)
	for _, s := range l.Sinks {
		s.Warn(text)
	}
	l.out.note("%s", text)
}

// missing warns about devices that stop answering, and when readings start to fail.
func (l *loop) missing(s gpu.Observation) {
	if s.Err != "" && !l.blind {
		l.say("cannot read the GPUs; no more jobs start on them until that works again: " + s.Err)
	}
	l.blind = s.Err != ""
	for _, r := range s.Readings {
		switch lost := l.lost[r.UUID]; {
		case r.Err != "" && !lost:
			l.lost[r.UUID] = true
			l.say(fmt.Sprintf("GPU %s does not answer and is not used until it does: %s", l.indexOf(r.UUID), r.Err))
		case r.Err == "" && lost:
			delete(l.lost, r.UUID)
			if r.Found != nil {
				r.UUID = r.Found.UUID
			}
			l.say(fmt.Sprintf("GPU %s answers again", l.indexOf(r.UUID)))
		}
	}
}

// indexOf returns a device's index, or its UUID if it has none.
func (l *loop) indexOf(id gpu.UUID) string {
	for _, d := range l.Prober.Devices() {
		if d.UUID == id {
			return fmt.Sprint(d.Index)
		}
	}
	return string(id)
}

// warnOf gives the warnings that come with an end.
func (l *loop) warnOf(job string, e sched.Ended) {
	if e.LeftOver > 0 && e.Why == "" {
		l.say(fmt.Sprintf("%s: ended %s that it left running", job, processes(e.LeftOver)))
	}
	if e.Stuck {
		l.say(job + ": some of its processes survive SIGKILL (see dmesg); its GPUs stay reserved")
	}
	if e.Warning != "" {
		l.say(job + ": " + e.Warning)
	}
}

func processes(n int) string {
	if n == 1 {
		return "a process"
	}
	return fmt.Sprintf("%d processes", n)
}
