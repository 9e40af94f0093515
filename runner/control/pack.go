package control

import (
	"encoding/json"

	"gpurun/state/schema"
)

// A StatusGroup lists jobs with the same status, which most waiting jobs share. Each job adds only
// its name and key, so the status of a large batch stays small.
type StatusGroup struct {
	schema.Job          // without Name and Key
	Names      []string `json:"names"`
	Keys       []string `json:"keys"`
}

// pack moves jobs without an attempt from the status into groups and drops jobs that are not
// selected. For 50,000 jobs, that reduces the reply to a twentieth of its size.
func (r *Reply) pack() {
	if r.Status == nil {
		return
	}
	index, jobs := map[string]int{}, []*schema.Job{} // index of each group by the JSON of its common fields
	last, at := &schema.Job{}, -1                    // the previous job and its group's index
	for _, j := range r.Status.Jobs {
		switch {
		case j.State == "":
			continue
		case j.Attempt != nil || j.Attempts > 0:
			jobs = append(jobs, j)
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

// unpack undoes pack. Replies of earlier gpurun versions contain no groups.
func (r *Reply) unpack() {
	for _, c := range r.StatusGroups {
		if r.Status == nil || len(c.Names) != len(c.Keys) {
			continue
		}
		for i := range c.Names {
			j := c.Job
			j.Name, j.Key = c.Names[i], c.Keys[i]
			r.Status.Jobs = append(r.Status.Jobs, &j)
		}
	}
	r.StatusGroups = nil
}
