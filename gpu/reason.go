package gpu

import (
	"fmt"
	"strings"
	"time"
)

// reason describes a finding, to be printed after "GPU 2: ".
func (p *Pool) reason(f finding, req *Request, d *device) string {
	switch f.cause {
	case notManaged:
		return "not managed by this run (gpu_ids)"
	case isReserved:
		return fmt.Sprintf("reserved for others (reserve: %d)", p.rules.Reserve)
	case notAsked:
		return "not in the job's gpu_ids"
	case otherModel:
		return fmt.Sprintf("%s, not %s", orUnknown(d.Name), either(req.Models))
	case partOfGPU:
		return fmt.Sprintf("a MIG instance, but the job needs %d GPUs", req.Min)
	case tooSmall:
		return have(d.Total, "total", req.Memory)
	case noReadings:
		return "no readings: " + d.noReading
	case notRead:
		return "not read yet"
	case silent:
		return "does not answer: " + d.err
	case atLimit:
		return fmt.Sprintf("this run holds %s, all that min_gpus, max_gpus and reserve allow now", count(p.held()))
	case isKept:
		return "kept for another job"
	case tooLittle, blind:
		return d.memoryReason(req)
	case busy, watching:
		return d.utilReason(f, req)
	}
	return d.companyReason(f)
}

// companyReason names who is on the device.
func (d *device) companyReason(f finding) string {
	switch f.cause {
	case prohibited:
		return "compute mode is prohibited: no process may use it"
	case exclusive:
		return "compute mode is exclusive, and " + d.biggest().on()
	case heldHere:
		if len(d.holds) > 1 {
			return fmt.Sprintf("held by %d jobs of this run", len(d.holds))
		}
		return "held by a job of this run"
	case claimed:
		return d.claims[0].words()
	case ownOn:
		return d.own.on()
	case othersOn:
		return d.foreign.on() + " (others: avoid)"
	case hiddenOn:
		return d.hiddenWords() + " (others: avoid)"
	case awaited:
		return "just released, its free memory is being read"
	}
	return ""
}

// memoryReason says how much memory is missing and who has it.
func (d *device) memoryReason(req *Request) string {
	if d.free < 0 {
		if !d.listed {
			return "neither its free memory nor its processes can be read"
		}
		if b := d.biggest(); b != nil {
			return "its free memory cannot be read, and " + b.on()
		}
		return "its free memory cannot be read, and a job holds it"
	}
	s := have(max(0, d.free-d.promised), "free", req.Memory)
	if d.promised > 0 {
		s += fmt.Sprintf("; another %s promised to running jobs", d.promised.Round())
	}
	if b := d.biggest(); b != nil && b.Memory > d.hidden {
		s += "; " + b.on()
	} else if d.hidden > 0 {
		s += "; " + d.hiddenWords()
	}
	return s
}

func (d *device) hiddenWords() string {
	return d.hidden.Round() + " in use by no visible process"
}

// utilReason says how busy the device is or was, or how long it has been watched.
func (d *device) utilReason(f finding, req *Request) string {
	window := d.window()
	if f.cause == watching {
		return "watching: " + watchedFor(d.watched, window)
	}
	highest := d.peaks[0]
	if window == atLeast {
		highest = d.peaks[1]
	}
	if now := d.samples[len(d.samples)-1].Percent; now <= req.MaxUtil {
		return fmt.Sprintf("%d%% busy in the last %d s, limit %d%%", highest, window/time.Second, req.MaxUtil)
	}
	return fmt.Sprintf("%d%% busy, limit %d%%", highest, req.MaxUtil)
}

// Note returns the caveats on the devices of a grant that is not yet held:
// "GPU 2 was watched for only 5 of 60 s"; usually "".
func (p *Pool) Note(now time.Duration, req Request, g Grant) string {
	var notes []string
	for _, id := range g.UUIDs {
		if d := p.device(id); d != nil {
			if note := p.note(now, &req, d); note != "" {
				notes = append(notes, "GPU "+d.label()+" was "+note)
			}
		}
	}
	return strings.Join(notes, ", ")
}

// note returns the caveat on a verdict that admits a request, or "".
func (p *Pool) note(now time.Duration, req *Request, d *device) string {
	if !p.rules.AtOnce {
		return ""
	}
	careful := Pool{rules: p.rules}
	careful.rules.AtOnce = false
	if careful.utilization(now, req, d).cause != watching {
		return ""
	}
	return "watched for only " + watchedFor(d.watched, d.window())
}

func watchedFor(watched, window time.Duration) string {
	return fmt.Sprintf("%d of %d s", watched/time.Second, window/time.Second)
}

// biggest returns the process with the most memory, or nil.
func (d *device) biggest() *Process {
	var b *Process
	for i := range d.procs {
		b = bigger(b, &d.procs[i])
	}
	return b
}

// on describes a process on a device: "python 4711 of bob is running on it, 37 GiB".
func (pr *Process) on() string {
	name := "process"
	if pr.Command != "" {
		name = pr.Command
	}
	s := fmt.Sprintf("%s %d of %s is running on it", name, pr.PID, pr.user())
	if pr.Memory >= 0 {
		s += ", " + pr.Memory.Round()
	}
	return s
}

func (pr *Process) user() string {
	switch {
	case pr.User != "":
		return pr.User
	case pr.UID < 0:
		return "an unknown user"
	}
	return fmt.Sprintf("uid %d", pr.UID)
}

// words returns "held by alice, train-svhn-s42, since 14:02", or during a hand-over
// "held by alice, for the job after train-svhn-s42".
func (c *Claim) words() string {
	s := "held by "
	if c.User != "" {
		s += c.User
	} else {
		s += "another run"
	}
	if c.Over {
		return s + ", for the job after " + brief(c.Job)
	}
	if c.Job != "" {
		s += ", " + brief(c.Job)
	}
	if !c.Since.IsZero() {
		s += ", since " + c.Since.Format("15:04")
	}
	return s
}

// maxName is the longest name of another user's job that a reason shows, in characters.
const maxName = 40

// brief shortens a name in the middle: names from a matrix differ at the end.
func brief(name string) string {
	r := []rune(name)
	if len(r) <= maxName {
		return name
	}
	return string(r[:maxName/2]) + "…" + string(r[len(r)-maxName/2+1:])
}

// have returns "12 GiB free, 20 GiB needed", in MiB where rounding would hide the difference.
func have(there Bytes, word string, asked Bytes) string {
	a, b := there.Round(), asked.Asked()
	if a == asked.Round() {
		a, b = fmt.Sprintf("%d MiB", there/MiB), fmt.Sprintf("%d MiB", (asked+MiB-1)/MiB)
	}
	return fmt.Sprintf("%s %s, %s needed", a, word, b)
}

func count(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

func orUnknown(name string) string {
	if name == "" {
		return "unknown model"
	}
	return name
}

func either(models []string) string {
	s := ""
	for i, m := range models {
		if i > 0 {
			s += " or "
		}
		s += fmt.Sprintf("%q", m)
	}
	return s
}

func (d *device) label() string {
	if d.MIG {
		return fmt.Sprintf("%d (%s)", d.Index, d.UUID)
	}
	return fmt.Sprint(d.Index)
}
