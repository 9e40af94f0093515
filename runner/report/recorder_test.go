package report

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// A store keeps text in memory. Its writes fail with err, or block until free is closed.
type store struct {
	mu   sync.Mutex
	text string
	err  error
	free chan struct{}
}

func (s *store) Load() *state.GPUReadings { return state.ParseGPUReadings(s.text) }

func (s *store) write(text string, all bool) error {
	if s.free != nil {
		<-s.free
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if all {
		s.text = ""
	}
	s.text += text
	return nil
}

func (s *store) Append(text []byte) error  { return s.write(string(text), false) }
func (s *store) Replace(text []byte) error { return s.write(string(text), true) }

func plain(f func()) { go f() }

// snapshots returns the snapshots of a run that lasts some minutes.
func snapshots(from time.Time, minutes int) (list []*schema.Status) {
	for i := range minutes {
		p := state.Pressure{Level: gpu.Level{UUID: "GPU-0", Used: gpu.Bytes(i+1) * gpu.GiB, Ours: 0, Util: i}}
		list = append(list, &schema.Status{Head: schema.Head{Now: from.Add(time.Duration(i) * time.Minute)}, Live: &schema.Live{GPUs: []state.Pressure{p}}})
	}
	return list
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// feed passes snapshots to a recorder, one at a time.
func feed(r *Recorder, list []*schema.Status) {
	for _, s := range list {
		r.Snapshot(s)
		synctest.Wait()
	}
}

func TestKilledRunLosesAtMostOneReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		first := NewRecorder(s, plain, nil)
		feed(first, snapshots(noon, 10))
		first.Close()
		killed := strings.TrimSuffix(s.text, s.text[strings.LastIndex(strings.TrimSpace(s.text), "\n")+1:])
		if n := len(state.ParseGPUReadings(s.text).Rows); n != 10 {
			t.Errorf("got %d rows, want 10:\n%s", n, s.text)
		}
		s = &store{text: killed}
		second := NewRecorder(s, plain, nil)
		feed(second, snapshots(noon.Add(time.Hour), 10))
		second.Close()
		if g := state.ParseGPUReadings(s.text); len(g.Rows) != 19 || *g.Rows[18].GPUs[0].Used != 10240 {
			t.Errorf("got %d rows, want 19 that end with the last reading:\n%s", len(g.Rows), s.text)
		}
	})
}

func TestFullDiskIsReportedOnceAndCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, said := &store{err: errors.New("no space left on device")}, 0
		r := NewRecorder(s, plain, func(error) { said++ })
		feed(r, snapshots(noon, 10))
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		r.Close()
		if n := len(state.ParseGPUReadings(s.text).Rows); n != 10 || said != 1 {
			t.Errorf("got %d rows and %d reports, want 10 and 1", n, said)
		}
	})
}

func TestHungDiskBlocksNeitherRunNorClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{free: make(chan struct{})}
		r := NewRecorder(s, plain, nil)
		began := time.Now()
		for _, n := range snapshots(noon, 1000) {
			r.Snapshot(n)
		}
		if r.Close(); time.Since(began) > closeTimeout {
			t.Errorf("took %v, want at most %v", time.Since(began), closeTimeout)
		}
		close(s.free)
		<-r.done
	})
}
