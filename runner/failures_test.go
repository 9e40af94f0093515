package runner

import (
	"testing"

	"gpurun/jobspec"
	"gpurun/state"
)

func TestFailuresAreGroupedAndCancelledJobsComeLast(t *testing.T) {
	one := 1
	ends := []struct {
		phase state.Phase
		line  string
		needs []int32
	}{
		{phase: state.Cancelled}, {phase: state.Failed, line: "KeyError: 'a'"}, {phase: state.Succeeded}, {phase: state.Failed, line: "ValueError: 1 is bad"},
		{phase: state.Failed, line: "ValueError: 2 is bad"}, {phase: state.Cancelled}, {phase: state.Blocked, needs: []int32{4}},
	}
	b := &jobspec.Batch{}
	for i, e := range ends {
		b.Jobs = append(b.Jobs, jobspec.Job{ID: i, Name: string(rune('a' + i)), Needs: e.needs})
	}
	got := Failures(b, func(id int) state.Phase { return ends[id].phase }, func(id int) Last {
		f := state.Fact{Kind: state.KindEnd, Job: b.Jobs[id].Name, State: ends[id].phase, Line: ends[id].line}
		if f.State == state.Failed {
			f.ErrorType, f.ExitCode = state.ErrExit, &one
		}
		return Recorded(state.NewRecord(0, 0, f, nil))
	})
	if len(got) != 3 {
		t.Fatalf("got %+v, want 3 groups", got)
	}
	for i, want := range []struct {
		job            string
		count, blocked int
	}{{"d", 2, 1}, {"b", 1, 0}, {"a", 2, 0}} {
		if f := got[i]; f.Job != want.job || f.Alike.Count != want.count || f.Blocked != want.blocked || len(f.Alike.Jobs) != want.count {
			t.Errorf("group %d: got %+v, want %+v", i, f, want)
		}
	}
}
