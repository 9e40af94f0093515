package cluster

import (
	"errors"
	"testing"
)

// shows is a dialect whose cluster reports this state for every job.
type shows struct {
	Dialect
	s  Shown
	ok bool
}

func (shows) Name() string { return "slurm" }
func (d shows) Show(string) Query[Shown] {
	return Query[Shown]{Command{Args: []string{"true"}}, func(string) (Shown, error) {
		if !d.ok {
			return d.s, errors.New("no answer")
		}
		return d.s, nil
	}}
}

// An allocation is over only if the cluster that the mark names reports that its job has ended or
// was restarted.
func TestAllocationIsOver(t *testing.T) {
	const mark = "slurm/12/0/main"
	for _, tt := range []struct {
		what string
		here Allocation
		d    shows
		want bool
	}{
		{"alive", Allocation{}, shows{s: Shown{Cluster: "main", Restarts: "0", Alive: true}, ok: true}, false},
		{"ended", Allocation{}, shows{s: Shown{Cluster: "main", Restarts: "0"}, ok: true}, true},
		{"unknown to another cluster", Allocation{}, shows{s: Shown{Cluster: "other"}, ok: true}, false},
		{"the cluster does not answer", Allocation{}, shows{s: Shown{Cluster: "main"}}, false},
		{"the caller's own", Allocation{ID: "12", Restarts: "0"}, shows{s: Shown{Cluster: "main", Restarts: "0", Alive: true}, ok: true}, false},
		{"alive, restart count unknown", Allocation{}, shows{s: Shown{Cluster: "main", Alive: true}, ok: true}, false},
		{"the caller's own, restarted", Allocation{ID: "12", Restarts: "1"}, shows{s: Shown{Cluster: "main", Restarts: "1", Alive: true}, ok: true}, true},
	} {
		if got := tt.here.Over(mark, Dialects{tt.d}); got != tt.want {
			t.Errorf("%s: over is %v, want %v", tt.what, got, tt.want)
		}
	}
	if (Allocation{}).Over("", Dialects{shows{ok: true}}) || (Allocation{}).Over("pbs/12/0/main", Dialects{shows{s: Shown{Cluster: "main"}, ok: true}}) {
		t.Error("a mark without a known cluster counts as over")
	}
}
