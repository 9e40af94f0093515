package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// on describes a process on a device: "bob's python 4711 is using 37 GiB".
func (pr *Process) on() string {
	s := userName(pr.User, pr.UID) + "'s "
	if pr.Command == inContainer {
		s += fmt.Sprintf("process %d %s", pr.PID, inContainer)
	} else {
		s += fmt.Sprintf("%s %d", cmp.Or(pr.Command, "process"), pr.PID)
	}
	if pr.Memory < 0 {
		return s + " is running on it"
	}
	return s + " is using " + pr.Memory.Round()
}

func userName(name string, uid int) string { return cmp.Or(UserName(name, uid), "an unknown user") }

// Clock formats t as a time of day, preceded by the date if t is not on the same day as now.
func Clock(t, now time.Time) string {
	if t, now = t.Local(), now.Local(); t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("15:04")
}

// words returns "held by alice, train-svhn-s42, since 14:02", or during a hand-over
// "held by alice, for the job after train-svhn-s42".
func (c *Claim) words() string {
	s := "held by another run"
	if c.User != "" {
		s = "held by " + c.User
	}
	if c.To != "" {
		return s + ", for the job after " + shortenName(c.Job)
	}
	if c.Job != "" {
		s += ", " + shortenName(c.Job)
	}
	if !c.Since.IsZero() {
		s += ", since " + c.Since.Local().Format("15:04")
	}
	return s
}

// maxName is the maximum length, in characters, of another user's job name in a reason.
const maxName = 40

// shortenName shortens a name in the middle, because names from a matrix differ at the end.
func shortenName(name string) string {
	r := []rune(name)
	if len(r) <= maxName {
		return name
	}
	return string(r[:maxName/2]) + "…" + string(r[len(r)-maxName/2+1:])
}

func heldByRun(jobs int) string {
	if jobs > 1 {
		return fmt.Sprintf("held by %d jobs of this run", jobs)
	}
	return "held by a job of this run"
}

func (d *device) hiddenWords() string {
	return d.hidden.Round() + " in use by no visible process"
}

func (d *device) watchedFor() string {
	return fmt.Sprintf("%d of %d s", d.watched/time.Second, windows[d.window()]/time.Second)
}

// have compares two sizes: "12 GiB free, 20 GiB needed".
func have(there Bytes, word string, asked Bytes) string {
	a, b := amounts(there, asked)
	return fmt.Sprintf("%s %s, %s needed", a, word, b)
}

// amounts formats two sizes, in MiB if rounding would hide the difference.
func amounts(there, asked Bytes) (a, b string) {
	if there.Round() == asked.Round() {
		return fmt.Sprintf("%d MiB", there/MiB), fmt.Sprintf("%d MiB", (asked+MiB-1)/MiB)
	}
	return there.Round(), asked.Asked()
}

func count(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// suitable returns "1 suitable GPU".
func suitable(n int) string { return strings.Replace(count(n), " ", " suitable ", 1) }

// either returns the quoted names: "a" or "b".
func either(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, " or ")
}

func (d *device) label() string {
	if d.MIG {
		return fmt.Sprintf("%d (%s)", d.Index, d.UUID)
	}
	return strconv.Itoa(d.Index)
}

// Never explains, in the terms of a job file, why the managed devices could never satisfy req, and
// suggests a fix. why is "" if they could.
func (p *Pool) Never(req Request) (why, hint string) {
	if most, limitedBy := p.most(); most >= 0 && most < req.Min {
		return fmt.Sprintf("needs %s; %s", count(req.Min), limitedBy), ""
	}
	if why, hint = p.never(req); why == "" {
		return "", ""
	}
	q := p.query(0, &req) // check whether devices that the host rules exclude would help
	for _, d := range p.devs {
		if r := q.refusal(fixed, d); r != nil && r.host && !strings.Contains(why, d.barred) {
			return why + "; GPU " + d.label() + ": " + r.words(&q, d), hint
		}
	}
	return why, hint
}

func (p *Pool) never(req Request) (why, hint string) {
	if len(p.devs) == 0 {
		return "this machine has no GPU", "if the job needs none, write gpus: 0"
	}
	if _, err := Select(p.all(), req.IDs.List()); err != nil {
		return "gpu_ids: " + err.Error(), ""
	}
	devs := p.Devices()
	if len(devs) == 0 {
		why, _ = p.Possible(req)
		return why, ""
	}
	fit := slices.DeleteFunc(slices.Clone(devs), func(d Device) bool { return !d.is(req.Models) })
	if len(fit) == 0 {
		return "no GPU here matches " + strings.Join(req.Models.List(), " or "), "this machine has " + names(devs)
	}
	named, at := matches(fit, req.IDs.List()), -1
	fit = slices.DeleteFunc(fit, func(Device) bool { at++; return !named[at] })
	if len(fit) == 0 {
		return fmt.Sprintf("this run is not allowed to use any of the job's gpu_ids (%s)", strings.Join(req.IDs.List(), ", ")), ""
	}
	most := Largest(fit)
	big := len(slices.DeleteFunc(fit, func(d Device) bool { return d.Total > 0 && d.Total < req.Memory }))
	switch bound := p.bound(len(devs)); {
	case big == 0:
		why = fmt.Sprintf("needs %s, but the largest GPU has %s", req.Memory.Asked(), most.Round())
	case big < req.Min && big < len(devs):
		why = fmt.Sprintf("needs %d GPUs, but this machine has only %s", req.Min, suitable(big))
	case big < req.Min:
		why = fmt.Sprintf("needs %d GPUs, but this machine has %d", req.Min, big)
	case bound < req.Min:
		why = fmt.Sprintf("needs %d GPUs, but reserve, min_gpus and max_gpus leave %d", req.Min, bound)
	default:
		why, _ = p.Possible(req) // no single rule explains it
	}
	return why, ""
}

// Largest returns the memory of the largest device; 0 if unknown.
func Largest(devs []Device) Bytes {
	var most Bytes
	for _, d := range devs {
		most = max(most, d.Total)
	}
	return most
}

func names(devs []Device) string {
	var list []string
	for _, d := range devs {
		if !slices.Contains(list, d.Name) {
			list = append(list, d.Name)
		}
	}
	return strings.Join(list, ", ")
}

// A Code is the reason a device is refused. Programs rely on the values: never change them.
type Code string

// These are the codes of the rules in admit.go. A scheduler that reserves a device uses Kept, too.
const (
	NotManaged  Code = "not_managed" // not among the GPUs that this run may use
	Reserved    Code = "reserved"    // reserved for others by the batch (reserve) or the host's owner
	NotAsked    Code = "not_asked"   // not among the job's gpu_ids
	OtherModel  Code = "model"       // its name does not match the job's gpu_model
	MIGInstance Code = "mig"         // a MIG instance, which only serves jobs with one GPU
	TooSmall    Code = "too_small"   // its total memory is less than the job needs
	Unread      Code = "unread"      // there is no recent reading of it
	SilentNow   Code = "silent"      // it does not answer
	Limit       Code = "limit"       // a limit is reached: slots, max_gpus, a quota or the host's hours
	Kept        Code = "kept"        // reserved for another job, or for another user whose turn it is
	MemoryShort Code = "memory"      // too little memory is free
	Busy        Code = "busy"        // its utilization is above max_util
	Watching    Code = "watching"    // its utilization has not been watched long enough
	Prohibited  Code = "prohibited"  // its compute mode prohibits all processes
	Exclusive   Code = "exclusive"   // its compute mode allows only one process, and there is one
	Held        Code = "held"        // a job of this run holds it
	Claimed     Code = "claimed"     // a job of another run holds it
	Own         Code = "own"         // another process of this user is on it
	OthersThere Code = "others"      // another user's process is on it (others: avoid)
	Hidden      Code = "hidden"      // memory is in use by no visible process (others: avoid)
	Releasing   Code = "releasing"   // a job has just released it, and its free memory is being read
	Quarantined Code = "quarantined" // jobs died on it, so it is not used for now
)

// words describe codes in summaries of a run.
var words = map[Code]string{
	MemoryShort: "too little free memory", Busy: "too busy", Watching: "not watched long enough", Claimed: "jobs of other runs",
	OthersThere: "processes of other users", Own: "your own processes", Hidden: "memory in use by no visible process",
	Limit: "limits", Kept: "kept for another job or user", Reserved: "reserved", Prohibited: "compute mode", Exclusive: "compute mode",
	Quarantined: "quarantined", SilentNow: "did not answer", Unread: "not read", Releasing: "just released",
	"too_few_gpus": "too few free at the same time", "host_memory": "too little host memory",
}

// Words describes a code, or the code of another reason to wait, for summaries: "too little free
// memory".
func (c Code) Words() string { return cmp.Or(words[c], strings.ReplaceAll(string(c), "_", " ")) }

// whose returns the user whose job or process is the reason d is refused, or "" if there is none.
// If the reason is a process, by is that process.
func (d *device) whose(c Code) (user string, by *Process) {
	switch {
	case (c == Claimed || c == Limit || c == MemoryShort) && len(d.claims) > 0:
		return UserName(d.claims[0].User, d.claims[0].UID), nil
	case c == Kept && len(d.gathers) > 0:
		return UserName(d.gathers[0].User, d.gathers[0].UID), nil
	case c == Own:
		by = d.own
	case c == OthersThere:
		by = d.foreign
	case c == MemoryShort || c == Busy || c == Watching || c == Exclusive:
		by = d.biggest()
	}
	if by != nil {
		user = UserName(by.User, by.UID)
	}
	return user, by
}

// UserName returns the name of a user, "uid 1000" if there is none, or "" if unknown.
func UserName(name string, uid int) string {
	if name == "" && uid >= 0 {
		return fmt.Sprintf("uid %d", uid)
	}
	return name
}

// List returns "GPU 0,3", or "CPU".
func List(ids []int) string {
	if len(ids) == 0 {
		return "CPU"
	}
	return "GPU " + strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}
