package cli

import (
	"fmt"
	"testing"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// Jobs with the same request are listed once, by the name of the first. Jobs that need no GPU or
// will not run are not listed.
func TestPlanListsEachRequestOnce(t *testing.T) {
	spec := func(min int, memory gpu.Bytes) *jobspec.Spec {
		return &jobspec.Spec{Request: gpu.Request{Min: min, Max: min, Memory: memory}}
	}
	shared := spec(1, 8)
	b := &jobspec.Batch{}
	add := func(name string, s *jobspec.Spec) {
		b.Jobs = append(b.Jobs, jobspec.Job{ID: len(b.Jobs), Name: name, Spec: s, Queue: -1})
	}
	add("cpu", spec(0, 0))
	add("skipped", spec(9, 8))
	add("a", shared)
	add("b", shared)
	add("two", spec(2, 8))
	add("c", spec(1, 8))
	for i := range 5 {
		add(fmt.Sprint("odd", i), spec(1, gpu.Bytes(100+i)))
	}
	list, more := requestGroups(b, sched.New(b, state.NewHistory(), sched.Options{}), func(id int) bool { return b.Jobs[id].Name != "skipped" })
	var got []string
	for _, w := range list {
		got = append(got, jobWords([]string{w.first}, 1, w.jobs))
	}
	if want := "[a and 2 more two odd0 odd1 odd2]"; fmt.Sprint(got) != want || more != 2 {
		t.Errorf("got %v and %d more, want %s and 2 more", got, more, want)
	}
}
