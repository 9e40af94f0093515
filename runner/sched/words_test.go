package sched

import (
	"fmt"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// words formats an action as one line of a scenario.
func (w *world) words(a Action) string {
	switch a := a.(type) {
	case Record:
		return "record " + factWords(a.Fact)
	case Prepare:
		s := fmt.Sprintf("prepare %s attempt %d%s", w.b.Jobs[a.Job].Name, a.Attempt, grantWords(a.Grant))
		if a.Timeout > 0 {
			s += " for at most " + a.Timeout.String()
		}
		return s
	case Discard:
		return "discard " + a.UniID
	case Yield:
		return "yield " + a.UniID + " on" + idWords(a.UUIDs)
	case Offer:
		return fmt.Sprintf("offer %s on%s to %s", a.UniID, idWords([]gpu.UUID{a.UUID}), a.To)
	case Gather:
		s := fmt.Sprintf("gather%s for %s", idWords(a.Grant.UUIDs), a.Job)
		if !a.Grant.Ends.IsZero() {
			s += ", expected in " + a.Grant.Ends.Sub(w.now.Wall).String()
		}
		return s
	case Ungather:
		return "end " + a.UniID
	case Wish:
		return "wish" + wishWords(a.Wish)
	case Launch:
		return "launch " + a.UniID
	case End:
		if a.Kill {
			return "kill " + a.UniID + " " + a.Why
		}
		if a.Unbegun {
			return "withdraw " + a.UniID + " " + a.Why
		}
		return "end " + a.UniID + " " + a.Why
	case Hold:
		if a.Release {
			return "release " + a.UniID
		}
		return "hold " + a.UniID
	case Limit:
		return fmt.Sprintf("limit %d jobs, %d GPUs", a.Jobs, a.GPUs)
	case Save:
		return fmt.Sprintf("save %s %s, %s", a.UniID, a.Signal, a.Wait)
	case Adopt:
		return "adopt " + a.Attempt.Start.UniID
	case Warn:
		return "warn " + a.Text
	case Ack:
		return "ack " + a.UniID
	case Quarantine:
		return fmt.Sprintf("quarantine%s for %s", idWords([]gpu.UUID{a.UUID}), a.Ends-w.now.Boot)
	case SampleProgress:
		return "sample " + strings.Join(a.UniIDs, " ")
	case Read:
		s := "read" + idWords(a.UUIDs)
		if len(a.UUIDs) > 0 && !a.Processes {
			s += " quickly"
		}
		return s
	case Wake:
		if a.At == 0 {
			return "wake never"
		}
		return "wake " + (a.At - w.now.Boot).String()
	case Finish:
		if a.GaveUp {
			return "finish, gave up"
		}
		return "finish"
	}
	return fmt.Sprintf("%T", a)
}

// idWords formats the indices in the test GPUs' UUIDs.
func idWords(ids []gpu.UUID) (s string) {
	for _, id := range ids {
		s += " " + strings.TrimLeft(strings.TrimPrefix(string(id), "GPU-"), "0")
		if strings.HasSuffix(s, " ") {
			s += "0"
		}
	}
	return s
}

func wishWords(w gpu.Wish) (s string) {
	for _, a := range w.Requests {
		s += fmt.Sprintf(" %d of %d with %s on%s", a.Jobs, a.Min, a.Memory, idWords(a.UUIDs))
	}
	if s == "" {
		return " nothing"
	}
	if w.Gathers {
		s += ", gathers"
	}
	return s
}

func grantWords(g gpu.Grant) string {
	if len(g.UUIDs) == 0 {
		return ""
	}
	s := " on"
	for _, i := range g.Indices {
		s += fmt.Sprint(" ", i)
	}
	return s + " with " + g.Memory.String()
}

func factWords(f state.Fact) string {
	who := f.Job
	if f.UniID != "" {
		who = f.UniID
	}
	switch f.Kind {
	case state.KindStalled:
		return "stalled " + who + " " + f.Reason
	case state.KindStop:
		return "stop " + who + " " + f.Why
	case state.KindEnd:
		s := "end " + who + " " + string(f.State)
		if f.ExitCode != nil && *f.ExitCode != 0 {
			s += fmt.Sprintf(" exit %d", *f.ExitCode)
		}
		for _, x := range []string{f.Signal, f.ErrorType, f.Reason} {
			if x != "" {
				s += " " + x
			}
		}
		if f.Uncharged != "" {
			s += " uncharged: " + f.Uncharged
		}
		if f.PeakMemory > 0 {
			s += " peak " + f.PeakMemory.String()
		}
		if f.Seconds > 0 {
			s += fmt.Sprintf(" after %s", time.Duration(f.Seconds*float64(time.Second)))
		}
		return s
	}
	return string(f.Kind) + " " + who
}
