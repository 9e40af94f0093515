// Package notify tells people who are not looking what becomes of a run: by chat services,
// mail, or a command of theirs. It is an observer: a run never waits for it, and does not
// fail because of it.
//
// URLs have tokens in them. They are in this process's memory and in the pipe to a child
// that sends one message and is ended after limit, and nowhere else: no error text of a
// library leaves the child, only an outcome.
package notify

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// What is tried how often, and how long a Sink waits at its end.
const (
	gather   = time.Minute // events within this time share a message
	tries    = 3
	closeFor = 15 * time.Second
)

// pauses are those before another try.
var pauses = [tries - 1]time.Duration{2 * time.Second, 8 * time.Second}

// Config is what a Sink needs.
type Config struct {
	Targets []jobspec.Notify // targets when the run begins
	Run     Run
	Hide    func(string) string // takes the secrets of jobs out of what is sent
	Say     func(text string)   // tells the user what could not be delivered, while the run goes on
	Go      func(func())        // starts a goroutine and handles its panics
}

// A Sink follows a run and sends news of it.
type Sink struct {
	Config
	began   time.Time
	all     []jobspec.Notify // the targets
	targets []*target
	sent    sync.WaitGroup
	ctx     context.Context // for the message being sent
	stop    context.CancelFunc
	send    func(context.Context, *order) outcome

	mu    sync.Mutex
	facts []event
	batch *jobspec.Batch // the batch as last read
	snap  *schema.Status
	over  bool
	said  map[string]bool // problems that the user knows of
	lost  []string        // messages lost after the end of the run

	wake chan struct{} // capacity 1
	done chan struct{}
}

// A target is one who gets news.
type target struct {
	*jobspec.Notify
	label string
	order order
	bad   outcome   // why nothing can be sent to it; zero if that is not so
	held  []item    // not sent yet
	due   time.Time // when that is to be sent
}

// New returns a sink for a run that begins now; Close ends it.
func New(c Config) *Sink {
	s := newSink(c)
	c.Go(s.run)
	return s
}

func newSink(c Config) *Sink {
	s := &Sink{Config: c, began: time.Now(), send: send, said: map[string]bool{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.join(c.Targets)
	return s
}

// join adds targets.
func (s *Sink) join(more []jobspec.Notify) {
	for _, n := range more {
		s.all = append(s.all, n)
		t := &target{Notify: &n, label: jobspec.Labels(s.all)[len(s.targets)]}
		if t.order, t.bad = resolve(t.Notify, os.LookupEnv); t.bad.Class != "" {
			s.problem(t, t.bad)
		}
		s.targets = append(s.targets, t)
	}
}

// Continue takes over whom the jobs of a batch notify, and those of the settings as they were.
func (s *Sink) Continue(b *jobspec.Batch) { s.note(func() { s.batch = b }) }

// Fact notes what may be news.
func (s *Sink) Fact(job int, f state.Fact) {
	if f.Kind == state.KindStart || f.Kind == state.KindStalled || f.Kind == state.KindEnd && f.State == state.Succeeded {
		s.note(func() { s.facts = append(s.facts, event{job, f}) })
	}
}

// Snapshot notes how the run is.
func (s *Sink) Snapshot(snap *schema.Status) { s.note(func() { s.snap = snap }) }

func (s *Sink) note(what func()) {
	s.mu.Lock()
	what()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run makes news of what happens until the run is over.
func (s *Sink) run() {
	defer close(s.done)
	d := collector{hide: s.Hide}
	var last *schema.Status
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		facts, snap, over, batch := s.facts, s.snap, s.over, s.batch
		s.facts, s.snap = nil, nil
		s.mu.Unlock()
		if snap != nil {
			last = snap
		}
		if batch != d.batch {
			d.batch = batch
			s.join(batch.Targets(s.all)[len(s.all):])
		}
		now := time.Now()
		s.hold(d.collect(facts, snap), now)
		if over {
			return
		}
		timer.Reset(s.flush(last, now))
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// hold keeps items for those who want them, until what happens soon after has come, too.
func (s *Sink) hold(items []item, now time.Time) {
	for _, t := range s.targets {
		list := wanted(items, t.Notify)
		if len(list) == 0 || t.bad.Class != "" {
			continue
		}
		if len(t.held) == 0 {
			t.due = now.Add(gather)
			if first := s.began.Add(t.MinDuration); t.due.Before(first) {
				t.due = first
			}
		}
		t.held = append(t.held, list...)
	}
}

// flush sends what is due, and returns how long there is nothing more to do.
func (s *Sink) flush(snap *schema.Status, now time.Time) time.Duration {
	next := time.Hour
	for _, t := range s.targets {
		switch {
		case len(t.held) == 0:
		case now.Before(t.due):
			next = min(next, t.due.Sub(now))
		default:
			s.deliver(t, compose(s.Run, t.held, snap, now.Sub(s.began), "all done, waiting for more", now))
			t.held = nil
		}
	}
	return next
}

// End sends the last news: how the run ended, in a word, and how the jobs are.
func (s *Sink) End(final *schema.Status, how string) {
	s.note(func() { s.snap, s.over = final, true })
	<-s.done
	now := time.Now()
	s.hold([]item{{on: "done"}}, now)
	for _, t := range s.targets {
		if ran := now.Sub(s.began); len(t.held) > 0 && ran >= t.MinDuration {
			s.deliver(t, compose(s.Run, t.held, final, ran, how, now))
		}
	}
}

// Close waits for a while until the news are sent, at most until ctx is done, and returns
// what could not be delivered since End.
func (s *Sink) Close(ctx context.Context) error {
	all := make(chan struct{})
	s.Go(func() { s.sent.Wait(); close(all) })
	ctx, stop := context.WithTimeout(ctx, closeFor)
	defer stop()
	defer context.AfterFunc(ctx, s.stop)()
	<-all // soon after stop
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		return nil
	}
	return errors.New(strings.Join(s.lost, "\n"))
}
