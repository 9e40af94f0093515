//go:build linux && cgo

package probe

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
)

// A GPU that is lost at Open is still listed, and is used once it responds.
func TestGPULostAtOpenIsUsedLater(t *testing.T) {
	for name, fault := range map[string]string{"no handle": "err.handle.1=15", "no UUID": "err.uuid.1=999"} {
		t.Run(name, func(t *testing.T) {
			behave(t, fault)
			r := open(t, Options{Library: standIn(t)})
			if got := r.Devices(); len(got) != 2 || got[0].UUID != gpu0 || got[1].Index != 1 || !got[1].Silent {
				t.Fatalf("got %+v, want GPU 0 and a silent GPU 1", got)
			}
			if r.Complete() {
				t.Error("indices count as complete, so CUDA could get the wrong device")
			}
			if snap := full(r); snap.Err != "" || snap.Readings[0].Err != "" || snap.Readings[1].Err == "" {
				t.Errorf("got %+v, want an error of GPU 1 alone", snap)
			}
			behave(t)
			snap := full(r)
			if f := snap.Readings[1].Found; f == nil || f.UUID != gpu1 || f.Silent || snap.Readings[1].Free <= 0 {
				t.Errorf("got %+v, want the identity of GPU 1", snap.Readings[1])
			}
			if got := r.Devices()[1]; got.UUID != gpu1 || got.Silent {
				t.Errorf("got %+v, want GPU 1 by its own UUID", got)
			}
			if snap := full(r); snap.Readings[1].UUID != gpu1 || snap.Readings[1].Found != nil {
				t.Errorf("got %+v, want a plain reading", snap.Readings[1])
			}
		})
	}
}

// When no device responds any more, a new child initializes the driver again after a pause.
func TestNewChildAfterAllDevicesFail(t *testing.T) {
	behave(t)
	now := time.Hour
	r := open(t, Options{Library: standIn(t), Now: func() time.Duration { return now }})
	first := r.child
	behave(t, "stale=1")
	want := "no GPU answers: unknown driver error (NVML error 999)"
	if got := full(r).Err; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	gone(t, first)
	if got := full(r).Err; got != want { // immediately
		t.Errorf("again: got %q, want %q", got, want)
	}
	behave(t)
	if got := full(r).Err; got != want || r.child != nil {
		t.Errorf("within the pause: got %q", got)
	}
	now += time.Second
	if snap := full(r); snap.Err != "" || len(snap.Readings) != 2 {
		t.Errorf("after the pause: got %+v", snap)
	}
}

// A single failing GPU must not start another child.
func TestSingleFailingDeviceKeepsTheChild(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t)})
	first := r.child
	behave(t, "err.memory.1=999", "err.memory2.1=999")
	for range 3 {
		if snap := r.Read(t.Context(), Query{UUIDs: []gpu.UUID{gpu1}}); snap.Err != "" || snap.Readings[0].Err == "" || r.child != first {
			t.Errorf("got %+v, want an error of GPU 1 by the same child", snap)
		}
	}
}

// An endless process list makes the child exceed its memory limit. The next child reads no lists.
func TestEndlessListsAreBounded(t *testing.T) {
	if raced {
		t.Skip("the race detector's own memory counts against the child's limit")
	}
	behave(t)
	now := time.Hour
	r := open(t, Options{Library: standIn(t), Now: func() time.Duration { return now }})
	behave(t, "endless.1=1", "procs.0=1:5")
	snap := full(r)
	if snap.Err != "" { // the first child could not grow a stack, which is a SIGSEGV
		now += time.Second
		snap = full(r)
	}
	if snap.Err != "" || len(snap.Readings) != 2 || snap.Readings[1].Listed || snap.Readings[1].Free <= 0 {
		t.Errorf("got %+v, want readings without lists", snap)
	}
	if !strings.Contains(strings.Join(childArgs("", false), " "), "--lists=false") || !r.blind {
		t.Error("process lists are still read")
	}
}

func TestChildOutOfMemoryStopsReadingLists(t *testing.T) {
	for text, want := range map[string]bool{
		"fatal error: runtime: out of memory\n\ngoroutine 1 [running]:\n":                                     true,
		"fatal error: runtime: cannot allocate memory\n\ngoroutine 1 [running]:\n":                            true,
		"runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort\nPC=0x46 m=0\n": true,
		"SIGSEGV: segmentation violation\nPC=0x46 m=0\n":                                                      false,
		"the driver ran out of patience":                                                                      false,
	} {
		var end tail
		_, _ = end.Write([]byte(text))
		if got := outOfMemory(errors.New(end.last())); got != want {
			t.Errorf("%q: got out of memory %v, want %v", text, got, want)
		}
	}
}

// A GPU switched to MIG mode during a run is no longer a usable device, until it is switched back.
func TestGPUInMIGModeIsNoDevice(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t)})
	behave(t, "mig.1=3")
	snap := full(r)
	want := gpu.Reading{UUID: gpu1, Err: parent, Total: -1, Free: -1, Used: -1}
	if snap.Err != "" || len(snap.Readings) != 2 {
		t.Fatalf("got %+v, want two readings", snap)
	}
	for _, got := range snap.Readings {
		if got.UUID == gpu1 && !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	behave(t)
	if got := full(r).Readings; got[0].Err+got[1].Err != "" {
		t.Errorf("switched off again: got %+v", got)
	}
}
