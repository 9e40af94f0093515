package runner

import (
	"fmt"

	"gpurun/gpu"
	"gpurun/runner/sched"
)

// A warner is a sink that shows warnings when there is reason for them.
type warner interface {
	Warn(text string)
}

// warn gives warnings that are given once.
func (l *loop) warn(warnings []string) {
	for _, w := range warnings {
		if l.said[w] {
			continue
		}
		l.said[w] = true
		l.say(w)
	}
}

// say gives a warning: at once to whoever looks and in run.log, and in the summary.
func (l *loop) say(text string) {
	l.Log.Warn().Msg(text)
	for _, s := range l.Sinks {
		if w, ok := s.(warner); ok {
			w.Warn(text)
		}
	}
	l.out.note("%s", text)
}

// missing warns of devices that do not answer, and when all readings begin to fail.
func (l *loop) missing(s gpu.Snapshot) {
	if s.Err != "" && !l.blind {
		l.say("the GPUs cannot be read, nothing more is started on them until they can: " + s.Err)
	}
	l.blind = s.Err != ""
	for _, r := range s.Readings {
		switch lost := l.lost[r.UUID]; {
		case r.Err != "" && !lost:
			l.lost[r.UUID] = true
			l.say(fmt.Sprintf("GPU %s does not answer, and is left out until it does: %s", l.indexOf(r.UUID), r.Err))
		case r.Err == "" && lost:
			delete(l.lost, r.UUID)
			if r.Found != nil {
				r.UUID = r.Found.UUID
			}
			l.say(fmt.Sprintf("GPU %s answers again", l.indexOf(r.UUID)))
		}
	}
}

// indexOf is a device's number for people; its UUID if it has none.
func (l *loop) indexOf(id gpu.UUID) string {
	for _, d := range l.Prober.Devices() {
		if d.UUID == id {
			return fmt.Sprint(d.Index)
		}
	}
	return string(id)
}

// warnOf gives what an end has to say that decides nothing.
func (l *loop) warnOf(job string, e sched.Ended) {
	if e.LeftOver > 0 && e.Why == "" {
		l.say(fmt.Sprintf("%s left %s behind, which gpurun has ended", job, processes(e.LeftOver)))
	}
	if e.Stuck {
		l.say(job + " has processes that nothing ends (see dmesg): its GPUs stay taken")
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
