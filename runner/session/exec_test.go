package session

import (
	"context"
	"slices"
	"testing"
	"time"

	"gpurun/gpu"
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
}

func (q *queue) Claim(context.Context, string, string, gpu.Grant) ([]gpu.Claim, []string, error) {
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
		e.read = func(context.Context) sched.Observed {
			return sched.Observed{Observation: gpu.Observation{At: host.Boottime(), Claims: []gpu.Claim{}, Readings: []gpu.Reading{
				{UUID: "GPU-0", Total: 24 * gpu.GiB, Free: 24 * gpu.GiB, Listed: true}, {UUID: "GPU-1", Total: 24 * gpu.GiB, Free: 24 * gpu.GiB, Listed: true},
			}}}
		}
		if e.step(t.Context(), sched.Began{}); !e.starts {
			t.Fatal("the command does not start on free GPUs")
		}
		now := host.Boottime()
		e.offerGPUs()
		if took := host.Boottime() - now; !slices.Equal(q.offers, want) || took > offerTimeout/2 {
			t.Errorf("bob waits %v: got offers %v after %v, want %v within %v", waits, q.offers, took, want, offerTimeout/2)
		}
	}
}
