package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// Never explains why no choice of the managed devices could ever satisfy req, in the words
// of a job file, and what to do about it; "" if one could.
func (p *Pool) Never(req Request) (why, hint string) {
	if most, limitedBy := p.most(); most >= 0 && most < req.Min {
		return fmt.Sprintf("needs %s; %s", count(req.Min), limitedBy), ""
	}
	if why, hint = p.never(req); why == "" {
		return "", ""
	}
	q := p.query(0, &req) // would devices help that the host rules bar?
	for i := range p.devs {
		d := &p.devs[i]
		if d.barred == "" || strings.Contains(why, d.barred) {
			continue
		}
		if words := q.refusal(fixed, d).words(&q, d); strings.HasSuffix(words, d.barred) {
			return why + "; GPU " + d.label() + ": " + words, hint
		}
	}
	return why, hint
}

func (p *Pool) never(req Request) (why, hint string) {
	devs := p.Devices()
	if len(devs) == 0 && len(p.devs) > 0 {
		why, _ = p.Possible(req)
		return why, ""
	}
	if len(devs) == 0 {
		return "this machine has no GPU", "if the job needs none, write gpus: 0"
	}
	fit := slices.DeleteFunc(slices.Clone(devs), func(d Device) bool { return !d.is(req.Models) })
	if len(fit) == 0 {
		return "no GPU here matches " + strings.Join(req.Models.List(), " or "), "this machine has " + names(devs)
	}
	named, at := matches(fit, req.IDs.List()), -1
	fit = slices.DeleteFunc(fit, func(Device) bool { at++; return !named[at] })
	if len(fit) == 0 {
		return fmt.Sprintf("this run may not use any of its gpu_ids (%s)", strings.Join(req.IDs.List(), ", ")), ""
	}
	most := Largest(fit)
	big := len(slices.DeleteFunc(fit, func(d Device) bool { return d.Total > 0 && d.Total < req.Memory }))
	switch bound := p.bound(len(devs)); {
	case big == 0:
		why = fmt.Sprintf("needs %s, but the largest GPU has %s", req.Memory.Asked(), most.Round())
	case big < req.Min && big < len(devs):
		why = fmt.Sprintf("needs %d GPUs, but only %d can take it", req.Min, big)
	case big < req.Min:
		why = fmt.Sprintf("needs %d GPUs, but there are %d", req.Min, big)
	case bound < req.Min:
		why = fmt.Sprintf("needs %d GPUs, but reserve, min_gpus and max_gpus leave %d", req.Min, bound)
	default:
		why, _ = p.Possible(req) // all rules together
	}
	return why, ""
}

// Largest returns the memory of the largest device, 0 if none is known.
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
