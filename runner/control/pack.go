package control

import (
	"encoding/json"

	"gpurun/state/schema"
)

// A StatusGroup lists jobs with the same status, as most waiting jobs have. Each contributes only
// its name and key, which makes a large status small.
type StatusGroup struct {
	schema.Job          // without name and key
	Names      []string `json:"names"`
	Keys       []string `json:"keys"`
}

// pack moves the jobs of a status without an attempt into groups, and drops those that
// the run has not selected. A run of 50,000 jobs sends a twentieth of the bytes.
func (r *Reply) pack() {
	if r.Status == nil {
		return
	}
	index, jobs := map[string]int{}, []schema.Job{} // groups, by their common fields as JSON
	last, at := &schema.Job{}, -1                   // the previous job and its group
	for i := range r.Status.Jobs {
		j := &r.Status.Jobs[i]
		switch {
		case j.State == "":
			continue
		case j.Attempt != nil || j.Attempts > 0:
			jobs = append(jobs, *j)
			continue
		}
		if at < 0 || j.File != last.File || j.State != last.State || j.Cause != last.Cause || j.Wait != last.Wait {
			c := StatusGroup{Job: schema.Job{File: j.File, State: j.State, Cause: j.Cause, Wait: j.Wait}}
			alike, _ := json.Marshal(c)
			k, known := index[string(alike)]
			if !known {
				k = len(r.StatusGroups)
				index[string(alike)], r.StatusGroups = k, append(r.StatusGroups, c)
			}
			at, last = k, j
		}
		c := &r.StatusGroups[at]
		c.Names, c.Keys = append(c.Names, j.Name), append(c.Keys, j.Key)
	}
	status := *r.Status
	status.Jobs, r.Status = jobs, &status
}

// unpack undoes pack. A run of an earlier gpurun sends every job by itself.
func (r *Reply) unpack() {
	for _, c := range r.StatusGroups {
		if r.Status == nil || len(c.Names) != len(c.Keys) {
			continue
		}
		for i := range c.Names {
			c.Name, c.Key = c.Names[i], c.Keys[i]
			r.Status.Jobs = append(r.Status.Jobs, c.Job)
		}
	}
	r.StatusGroups = nil
}
