package batches

import (
	"testing"

	"gpurun/state"
)

// An end must appear only once, even if the run records it while a view inspects the attempt's
// traces.
func TestEndRecordedMeanwhileIsNotRepeated(t *testing.T) {
	end := state.Fact{Kind: state.KindEnd, UniID: "u", Job: "a", Key: "k", State: state.Succeeded}
	for _, recorded := range []bool{false, true} {
		ref := &Ref{Real: "jobs.yaml"}
		l := &readLog{files: ref.Files()}
		l.runs.Add(0, 1, state.Fact{Kind: state.KindRun})
		l.runs.Add(0, 2, state.Fact{Kind: state.KindStart, UniID: "u", Job: "a", Key: "k", Attempt: 1})
		if recorded {
			l.runs.Add(0, 3, end)
		}
		p := l.read(ref, openAttempts{ended: map[string]ending{"u": {0, end}}})
		if len(p.Attempts) != 1 || p.Attempts[0].Open != nil {
			t.Errorf("recorded %v: got %d attempts, want one that has ended", recorded, len(p.Attempts))
		}
	}
}
