package sched

import (
	"testing"

	"gpurun/gpu"
	"gpurun/state"
)

func TestBreakerHoldsGroupAfterFailures(t *testing.T) {
	const group, limit = 7, 2
	missing, torch := state.Failure{Line: "no such file"}, state.Failure{Line: "no module named torch"}
	on := func(i int) gpu.Grant { return gpu.Grant{Indices: []int{i}, UUIDs: []gpu.UUID{uuid(i)}} }
	elsewhere := func([]gpu.UUID) bool { return true }
	nowhere := func([]gpu.UUID) bool { return false }
	for name, row := range map[string]struct {
		play func(b *breaker)
		want bool
	}{
		"too few failures":           {func(b *breaker) {}, false},
		"the same error on two GPUs": {func(b *breaker) { b.failed(group, limit, missing, on(1), elsewhere) }, true},
		"different errors":           {func(b *breaker) { b.failed(group, limit, torch, on(1), elsewhere) }, false},
		"another group":              {func(b *breaker) { b.failed(8, limit, missing, on(1), elsewhere) }, false},
		"one GPU, others exist":      {func(b *breaker) { b.failed(group, limit, missing, on(0), elsewhere) }, false},
		"the only GPU":               {func(b *breaker) { b.failed(group, limit, missing, on(0), nowhere) }, true},
		"one GPU, twice as many failures": {func(b *breaker) {
			for range 3 {
				b.failed(group, limit, missing, on(0), elsewhere)
			}
		}, true},
		"an earlier success": {func(b *breaker) {
			b.succeeded(group)
			b.failed(group, limit, missing, on(1), elsewhere)
		}, false},
		"after forget": {func(b *breaker) {
			b.forget(group)
			b.failed(group, limit, missing, on(1), elsewhere)
		}, false},
	} {
		b := &breaker{groups: map[uint64]failureGroup{}}
		b.failed(group, limit, missing, on(0), nowhere)
		row.play(b)
		if got := b.holds(group) != nil; got != row.want {
			t.Errorf("%s: the group is held: %v, want %v", name, got, row.want)
		}
		if len(b.held) > 0 != row.want {
			t.Errorf("%s: the groups %v are listed as held, want any: %v", name, b.held, row.want)
		}
		if released := b.succeeded(group); released != row.want || b.holds(group) != nil || len(b.held) > 0 {
			t.Errorf("%s: a success releases the group: %v, want %v; still held: %v", name, released, row.want, b.held)
		}
	}
}

// A group whose failures were all on one GPU must be tried on other GPUs before it is held.
func TestBreakerTriesOtherGPUsFirst(t *testing.T) {
	b, fl, both := &breaker{groups: map[uint64]failureGroup{}}, state.Failure{Line: "no such file"}, []gpu.UUID{uuid(0), uuid(1)}
	elsewhere := func([]gpu.UUID) bool { return true }
	b.failed(7, 2, fl, gpu.Grant{UUIDs: both}, elsewhere)
	if got := b.avoided(7, 2); got != nil {
		t.Errorf("after one failure, %v is avoided", got)
	}
	b.failed(7, 2, fl, gpu.Grant{UUIDs: both[1:]}, elsewhere)
	if got := b.avoided(7, 2); len(got) != 1 || got[0] != uuid(1) {
		t.Errorf("after two failures on %s, %v is avoided", uuid(1), got)
	}
}

func TestFailuresThatCountForTheBreaker(t *testing.T) {
	for name, row := range map[string]struct {
		f     state.Fact
		grows bool
		want  bool
	}{
		"exit 1 after seconds":         {state.Fact{ErrorType: state.ErrExit, Seconds: 3}, false, true},
		"exit 1 after an hour":         {state.Fact{ErrorType: state.ErrExit, Seconds: 3600}, false, false},
		"a success":                    {state.Fact{Seconds: 3}, false, false},
		"a lost attempt":               {state.Fact{ErrorType: state.ErrLost}, false, false},
		"out of memory":                {state.Fact{ErrorType: state.ErrOOM}, false, true},
		"out of memory, retries grow":  {state.Fact{ErrorType: state.ErrOOM}, true, false},
		"out of memory, not its fault": {state.Fact{ErrorType: state.ErrOOM, Uncharged: "a neighbor took it"}, false, false},
		"exit 1, retries grow":         {state.Fact{ErrorType: state.ErrExit}, true, true},
	} {
		if got := telling(row.f, row.grows); got != row.want {
			t.Errorf("%s: counts: %v, want %v", name, got, row.want)
		}
	}
}
