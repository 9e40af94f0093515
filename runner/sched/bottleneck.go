package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpurun/gpu"
	"gpurun/state/schema"
)

// bottleneck returns why the next job in line does not start, in a few words; nil if there is
// no such job, or the run starts no more jobs.
func (c *Core) bottleneck() *string {
	switch c.RunPhase() {
	case schema.RunStopping, schema.RunDraining:
		return nil
	case schema.RunPaused:
		return schema.Known("nothing starts")
	}
	id, w := c.first()
	switch {
	case w == nil:
		return nil
	case len(w.GPUs) == 0:
		return schema.Known(c.name(id) + " waits: " + w.Text)
	}
	req := c.request(id)
	if why, ok := c.pool.Possible(req); !ok {
		return schema.Known(c.name(id) + " waits: " + why)
	}
	text, alone := c.lacking(id, req)
	if !alone {
		text = c.name(id) + " " + wants(req) + ": " + text
	}
	return &text
}

// A lack is a group of GPUs that a job cannot have for the same reason.
type lack struct {
	text    string
	gpus    []int
	counted bool // print their number, not their indices
}

func (l *lack) String() string {
	if l.counted {
		return fmt.Sprintf("%d %s", len(l.gpus), l.text)
	}
	if free, ok := strings.CutPrefix(l.text, "has "); ok && len(l.gpus) > 1 {
		return gpuNumbers(l.gpus) + " have " + free
	} else if ok {
		return gpuNumbers(l.gpus) + " " + l.text
	}
	return gpuNumbers(l.gpus) + ": " + l.text
}

// lackList groups GPUs by reason.
type lackList []*lack

func (l *lackList) add(text string, index int) {
	i := slices.IndexFunc(*l, func(l *lack) bool { return l.text == text })
	if i < 0 {
		i, *l = len(*l), append(*l, &lack{text: text})
	}
	(*l)[i].gpus = append((*l)[i].gpus, index)
}

// brief returns why a job cannot have a GPU, for the state line: "has 9 GiB (bob, jupyter, since
// 08:42)".
func (c *Core) brief(v *gpu.Verdict, no noGPU) string {
	text, by := no.text, v.User
	if no.code != v.Code || v.By == nil && v.Code != gpu.MemoryShort {
		return text
	}
	if p := v.By; p != nil {
		if by = cmp.Or(by, "unknown user"); p.Command != "" {
			by += ", " + p.Command
		}
		if p.Start > 0 {
			by += ", since " + gpu.Clock(c.now.Wall.Add(p.Start-c.now.Boot), c.now.Wall)
		}
	}
	switch v.Code {
	case gpu.MemoryShort:
		text = "has " + v.Free
	case gpu.Own, gpu.OthersThere:
		return "used by " + by
	}
	if by == "" {
		return text
	}
	return text + " (" + by + ")"
}

// lacking describes the GPUs that a job lacks, by reason, in at most two groups. It names another
// user only if the job would start without their jobs and processes. alone means that text needs
// no context, because this batch holds all usable GPUs.
func (c *Core) lacking(id int32, req gpu.Request) (text string, alone bool) {
	usable, free, ours, theirs := 0, &lack{"free", nil, true}, &lack{"used by this batch", nil, true}, &lack{"used by others", nil, true}
	rest, users := lackList{ours, theirs}, lackList(nil)
	for _, v := range c.pool.Admit(c.now.Boot, req) {
		no := c.whyNotOn(id, v)
		if v.Never {
			continue
		}
		switch usable++; {
		case no.text == "":
			free.gpus = append(free.gpus, v.Index)
		case no.code == gpu.Held || v.Ours && no.code == v.Code:
			ours.gpus = append(ours.gpus, v.Index)
		case no.user != "":
			theirs.gpus = append(theirs.gpus, v.Index)
			users.add(c.brief(&v, no), v.Index)
		default:
			rest.add(c.brief(&v, no), v.Index)
		}
	}
	switch n := len(ours.gpus); {
	case n == usable && n == 1:
		return "this batch uses the only usable GPU", true
	case n == usable:
		return fmt.Sprintf("this batch uses all %d usable GPUs", n), true
	}
	bySize := func(a, b *lack) int { return cmp.Compare(len(b.gpus), len(a.gpus)) }
	slices.SortStableFunc(users, bySize)
	slices.SortStableFunc(rest, bySize)
	if len(users) > 0 && len(free.gpus)+len(users[0].gpus) >= req.Min {
		rest = users[:1]
	}
	var words []string
	for _, l := range append([]*lack{free}, rest...) {
		if len(l.gpus) > 0 && len(words) < 2 {
			words = append(words, l.String())
		}
	}
	return strings.Join(words, ", "), false
}
