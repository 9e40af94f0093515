package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner"
	"gpurun/runner/engine"
	"gpurun/runner/sched"
	"gpurun/state/host"
)

// queue is an engine on a host where bob waits for GPUs and accepts any offer.
type queue struct {
	engine.Engine
	engine.Claims
	events chan engine.Event
	wishes []gpu.Wish
	claims []gpu.Claim
	offers []gpu.UUID
	failed []string // uni_ids of claims that failed
	fails  int      // number of claims yet to fail
}

func (q *queue) Claim(_ context.Context, uniID, _ string, _ gpu.Grant) ([]gpu.Claim, []string, error) {
	if q.fails > 0 {
		q.fails--
		q.failed = append(q.failed, uniID)
		return nil, nil, errors.New("the keeper does not answer")
	}
	return q.claims, nil, nil
}

func (q *queue) Wish(gpu.Wish) {}

func (q *queue) Others(context.Context, []gpu.Reading) ([]gpu.Claim, []string) { return q.claims, nil }
func (q *queue) Wishes() []gpu.Wish                                            { return q.wishes }
func (q *queue) Events() <-chan engine.Event                                   { return q.events }

func (q *queue) Offer(_ string, id gpu.UUID, to string) {
	q.offers = append(q.offers, id)
	q.claims = append(q.claims, gpu.Claim{UUID: id, UID: 1001, Run: to, Attempt: "bobs"})
	q.events <- engine.Event{ClaimsChanged: true}
}

// free returns a reading in which each device has that much memory free.
func free(memory gpu.Bytes, devs []gpu.Device) sched.Observed {
	o := gpu.Observation{At: host.Boottime(), Claims: []gpu.Claim{}}
	for _, d := range devs {
		o.Readings = append(o.Readings, gpu.Reading{UUID: d.UUID, Total: d.Total, Free: memory, Listed: true})
	}
	return sched.Observed{Observation: o}
}

// If readings take longer than the poll interval, a step must not wait for one after another, or exec
// would neither say why it waits nor stop.
func TestExecStepsBetweenSlowReadings(t *testing.T) {
	devs := []gpu.Device{{UUID: "GPU-0", Total: 24 * gpu.GiB}}
	q := &queue{claims: []gpu.Claim{}}
	e := &Exec{Request: gpu.Request{Min: 1, Max: 1, Memory: 20 * gpu.GiB, MaxUtil: 100}, Rules: gpu.Rules{Poll: time.Millisecond}, engine: engine.Opened{Engine: q, Claims: q}}
	e.begin(gpu.NewPool(devs, gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow}))
	reads := 0
	e.read = func(context.Context) sched.Observed {
		if reads++; reads > 3 {
			t.Fatal("a step reads the GPUs again and again")
		}
		time.Sleep(60 * time.Millisecond)
		return free(gpu.GiB, devs)
	}
	e.step(t.Context(), sched.Began{})
	for want := range 3 {
		if reads != want {
			t.Errorf("after %d steps: got %d readings", want+1, reads)
		}
		e.step(t.Context(), e.next(t.Context()))
	}
	if why := e.core.Why(runner.Now(), 0); !strings.Contains(why, "1 GiB free") {
		t.Errorf("got %q", why)
	}
}

// The keeper drops a claim that it makes too late. If the next claim had the same uni_id, the keeper
// would drop that one too, while its command runs.
func TestExecClaimsAgainUnderAnotherID(t *testing.T) {
	devs := []gpu.Device{{UUID: "GPU-0", Total: 24 * gpu.GiB}}
	q := &queue{claims: []gpu.Claim{}, fails: 1}
	e := &Exec{uniID: "first", Request: gpu.Request{Min: 1, Max: 1, Memory: 20 * gpu.GiB, MaxUtil: 100}, Rules: gpu.Rules{Poll: time.Millisecond}, engine: engine.Opened{Engine: q, Claims: q}}
	e.begin(gpu.NewPool(devs, gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow}))
	e.read = func(context.Context) sched.Observed { return free(24*gpu.GiB, devs) }
	e.step(t.Context(), sched.Began{})
	for range 1000 {
		if e.starts {
			break
		}
		e.step(t.Context(), e.next(t.Context()))
	}
	if !e.starts || len(q.failed) != 1 || e.uniID == "" || e.uniID == q.failed[0] {
		t.Errorf("started %v with claim %q after failed claims %q", e.starts, e.uniID, q.failed)
	}
}

// When its command ends, exec offers a waiting run as many GPUs as that run wants, and does not wait
// if nobody wants any.
func TestExecOffersOnlyWantedGPUs(t *testing.T) {
	devs := []gpu.Device{{Index: 0, UUID: "GPU-0", Total: 24 * gpu.GiB}, {Index: 1, UUID: "GPU-1", Total: 24 * gpu.GiB}}
	for _, waits := range []bool{true, false} {
		pool := gpu.NewPool(devs, gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow, UID: 1000, Run: "exec"})
		q, want := &queue{events: make(chan engine.Event, 2), claims: []gpu.Claim{}}, []gpu.UUID(nil)
		if waits {
			ask := gpu.WishRequest{Jobs: 1, Min: 1, Memory: 8 * gpu.GiB, MaxUtil: 100, Others: gpu.OthersAllow, Room: 2, UUIDs: []gpu.UUID{"GPU-0", "GPU-1"}}
			q.wishes, want = []gpu.Wish{{Run: "bobs run", UID: 1001, Since: time.Now(), Requests: []gpu.WishRequest{ask}}}, []gpu.UUID{"GPU-0"}
		}
		e := &Exec{uniID: "mine", Request: gpu.Request{Min: 2, Max: 2, Memory: 20 * gpu.GiB, MaxUtil: 100}, engine: engine.Opened{Engine: q, Claims: q}}
		e.begin(pool)
		e.read = func(context.Context) sched.Observed { return free(24*gpu.GiB, devs) }
		e.step(t.Context(), sched.Began{})
		if e.step(t.Context(), e.next(t.Context())); !e.starts {
			t.Fatal("the command does not start on free GPUs")
		}
		now := host.Boottime()
		e.offerGPUs()
		if took := host.Boottime() - now; !slices.Equal(q.offers, want) || took > offerTimeout/2 {
			t.Errorf("bob waits %v: got offers %v after %v, want %v within %v", waits, q.offers, took, want, offerTimeout/2)
		}
	}
}
