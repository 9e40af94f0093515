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
			return d.s, errors.New("it does not say")
		}
		return d.s, nil
	}}
}

// An allocation is over only if the same cluster says so, or if the job has been restarted since.
func TestAllocationIsOver(t *testing.T) {
	const mark = "slurm/12/0/main"
	for _, tt := range []struct {
		what string
		here Allocation
		d    shows
		want bool
	}{
		{"it is alive", Allocation{}, shows{s: Shown{Cluster: "main", Restarts: "0", Alive: true}, ok: true}, false},
		{"it has ended", Allocation{}, shows{s: Shown{Cluster: "main", Restarts: "0"}, ok: true}, true},
		{"another cluster has no record of it", Allocation{}, shows{s: Shown{Cluster: "other"}, ok: true}, false},
		{"nobody knows", Allocation{}, shows{s: Shown{Cluster: "main"}}, false},
		{"this is it", Allocation{ID: "12", Restarts: "0"}, shows{s: Shown{Cluster: "main", Restarts: "0", Alive: true}, ok: true}, false},
		{"it is alive, and nobody says how often it was started", Allocation{}, shows{s: Shown{Cluster: "main", Alive: true}, ok: true}, false},
		{"this is it, started again", Allocation{ID: "12", Restarts: "1"}, shows{s: Shown{Cluster: "main", Restarts: "1", Alive: true}, ok: true}, true},
	} {
		if got := tt.here.Over(mark, Dialects{tt.d}); got != tt.want {
			t.Errorf("%s: over %v", tt.what, got)
		}
	}
	if (Allocation{}).Over("", Dialects{shows{ok: true}}) || (Allocation{}).Over("pbs/12/0/main", Dialects{shows{s: Shown{Cluster: "main"}, ok: true}}) {
		t.Error("a job of no known cluster is over")
	}
}
