package gpu

import (
	"testing"
	"time"
)

// A device that has never answered could be any device that a job requests. It gets its identity
// with its first answer.
func TestSilentDeviceGetsItsIdentityLater(t *testing.T) {
	whole := Device{Index: 0, UUID: "GPU-a", Name: "NVIDIA A100", Total: 40 * GiB}
	late := Device{Index: 1, UUID: "GPU-b", Name: "NVIDIA A100", Total: 40 * GiB}
	p := NewPool([]Device{whole, {Index: 1, UUID: "GPU?1", Silent: true}}, Rules{MinGPUs: -1, MaxGPUs: -1, Pick: FirstFit})
	req := Request{Min: 2, Max: 2, Memory: 30 * GiB, MaxUtil: 100, Models: "a100"}
	if why, ok := p.Possible(req); !ok {
		t.Errorf("a job is impossible because a device is silent: %s", why)
	}
	req.IDs = NamesOf([]string{"GPU-a", "GPU-b"})
	if why, ok := p.Possible(req); !ok {
		t.Errorf("a job is impossible although its UUID may be the silent device's: %s", why)
	}
	reading := func(id UUID) Reading {
		return Reading{UUID: id, Total: 40 * GiB, Free: 40 * GiB, Listed: true}
	}
	p.Observe(Observation{At: time.Second, Readings: []Reading{reading("GPU-a"), {UUID: "GPU?1", Err: "GPU is lost"}}})
	if _, ok := p.Find(time.Second, req, nil); ok {
		t.Error("a job got a silent device")
	}
	answer := reading("GPU?1")
	answer.Found = &late
	p.Observe(Observation{At: 2 * time.Second, Readings: []Reading{reading("GPU-a"), answer}})
	if req.IDs = NamesOf([]string{"GPU-a", "GPU-c"}); fits(p, 2*time.Second, req) {
		t.Error("a job got a device with another UUID than it requested")
	}
	req.IDs = ""
	if g, ok := p.Find(2*time.Second, req, nil); !ok || g.UUIDs[1] != "GPU-b" {
		t.Errorf("got %v, %t, want both devices by their own UUIDs", g, ok)
	}
}
