package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gpurun/gpu"
)

// plain formats readings as "all", "GPU-0000" or "list GPU-0000".
func plain(due []Read) string {
	var words []string
	for _, r := range due {
		switch {
		case r.UUIDs == nil:
			words = append(words, "all")
		case r.Processes:
			words = append(words, "list "+string(r.UUIDs[0]))
		default:
			words = append(words, string(r.UUIDs[0]))
		}
	}
	return fmt.Sprint(words)
}

// While a job waits, all GPUs are read at each poll, and less often while readings fail.
func TestAllGPUsAreReadWhileJobsWait(t *testing.T) {
	const poll = 5 * time.Second
	r, live, now := &readings{}, &attempts{}, time.Hour
	due := func(wanted, handingOver bool) string { return plain(r.due(now, live, wanted, handingOver, poll)) }
	if got := due(false, false); got != "[]" {
		t.Errorf("without a waiting job: got %s", got)
	}
	if got := due(true, true); got != "[]" {
		t.Errorf("during a hand-over: got %s", got)
	}
	if got := due(true, false); got != "[all]" {
		t.Errorf("with a waiting job: got %s", got)
	}
	if now += poll; due(true, false) != "[]" {
		t.Error("all GPUs are read again before the answer")
	}
	if now += readingLost; due(true, false) != "[all]" {
		t.Error("all GPUs are not read again after the answer was lost")
	}
	var pauses []time.Duration
	for _, err := range []string{"", "no driver", "no driver", "no driver", "no driver", "no driver", "", ""} {
		r.answered(now, err, poll)
		began := now
		for due(true, false) == "[]" {
			now += time.Second
		}
		pauses = append(pauses, now-began)
	}
	if want := []time.Duration{poll, 2 * poll, 4 * poll, 8 * poll, time.Minute, time.Minute, time.Minute, poll}; !slices.Equal(pauses, want) {
		t.Errorf("got pauses of %v, want %v", pauses, want)
	}
}

// GPUs in use are read every second. Their processes are listed every few seconds, and on request.
func TestGPUsInUseAreReadEverySecond(t *testing.T) {
	a := &attempt{uniID: "a.1", grant: gpu.Grant{UUIDs: []gpu.UUID{uuid(0)}}}
	r, live, now := &readings{}, &attempts{all: []*attempt{a}, onGPUs: 1}, time.Hour
	due := func() string { return plain(r.due(now, live, false, false, time.Minute)) }
	if r.begun(now); due() != "[]" {
		t.Error("the GPU is read immediately after the start")
	}
	now += usedFirst
	if got := due(); got != "[list GPU-0000]" {
		t.Errorf("soon after the start: got %s", got)
	}
	lists := 0
	for range 20 {
		r.used.out = false
		now += usedEvery
		switch got := due(); got {
		case "[list GPU-0000]":
			lists++
		case "[GPU-0000]":
		default:
			t.Errorf("every second: got %s", got)
		}
	}
	if want := int(20 * usedEvery / listEvery); lists != want {
		t.Errorf("got %d lists of processes in 20 s, want %d", lists, want)
	}
	r.list(uuid(1), uuid(1))
	if got := due(); got != "[list GPU-0001]" {
		t.Errorf("after a request for a list: got %s", got)
	}
}

// All GPUs are read 15 s and 60 s after a start, and every ten minutes, to find strays.
func TestAllGPUsAreReadToFindStrays(t *testing.T) {
	a := &attempt{uniID: "a.1", usage: usage{lookAt: time.Hour + strayFirst}}
	r, live, now := &readings{}, &attempts{all: []*attempt{a}}, time.Hour
	var found []time.Duration
	for now < 2*time.Hour {
		next := now + time.Hour
		r.nextDue(live, false, func(at time.Duration) {
			if at > now {
				next = min(next, at)
			}
		})
		if now = next; plain(r.due(now, live, false, false, time.Second)) == "[all]" {
			r.answered(now, "", time.Second)
			live.strayLooked(now)
			found = append(found, now-time.Hour)
		}
	}
	if want := []time.Duration{strayFirst, straySecond, straySecond + strayEvery}; len(found) < 3 || !slices.Equal(found[:3], want) {
		t.Errorf("all GPUs were read after %v, want %v", found, want)
	}
}

// All attempts are sampled at the shortest interval that the stall settings of any of them require.
func TestProgressIsSampledAtShortestInterval(t *testing.T) {
	slow, quick, never := &attempt{uniID: "slow"}, &attempt{uniID: "quick"}, &attempt{uniID: "never"}
	every := func(a *attempt) time.Duration {
		return map[*attempt]time.Duration{slow: time.Minute, quick: 10 * time.Second}[a]
	}
	s, live, now := &sampling{}, &attempts{all: []*attempt{slow, never}}, time.Hour
	var got []string
	for i := range 20 {
		if i == 10 {
			live.all = append(live.all, quick)
		}
		if ids := s.due(now, live, every); ids != nil {
			s.out.out = false
			got = append(got, fmt.Sprint(i*10, ids))
		}
		now += 10 * time.Second
	}
	if len(got) != 10 || got[0] != "60 [slow]" || got[1] != "110 [slow quick]" {
		t.Errorf("got samples at %q", got)
	}
	live.all = nil
	if s.due(now, live, every); s.next != 0 {
		t.Errorf("no attempt is running, but the next sample is due at %v", s.next)
	}
}
