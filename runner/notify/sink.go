// Package notify notifies users of a run's events by chat services, mail, or a command. It is an
// observer: jobs never wait for it, and a run does not fail because of it.
//
// URLs may contain tokens. gpurun keeps them only in the memory of this process and of a child, and in
// the pipe between them. Each child sends one message and is killed after limit. It returns only an
// outcome, never the error text of a library.
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
	"gpurun/state/redact"
	"gpurun/state/schema"
)

const (
	gather   = time.Minute      // events within this time share a message
	closeFor = 15 * time.Second // how long Close waits for messages to be sent
)

// pauses are the pauses before each retry of a message.
var pauses = []time.Duration{2 * time.Second, 8 * time.Second}

// Config configures a Sink.
type Config struct {
	Targets []jobspec.Notify // targets when the run begins
	Run     Run
	Secrets func(*jobspec.Batch) []string // secrets of the jobs, which messages leave out
	Say     func(text string)             // reports undelivered messages to the user during the run
	Go      func(func())                  // starts a goroutine and handles its panics
}

// A Sink follows a run and sends notifications about it.
type Sink struct {
	Config
	began   time.Time
	all     []jobspec.Notify // the targets
	targets []*target
	sent    sync.WaitGroup
	ctx     context.Context // for sending messages
	stop    context.CancelFunc
	send    func(context.Context, *order) outcome

	mu    sync.Mutex
	facts []event
	batch *jobspec.Batch // the batch as last read
	snap  *schema.Status
	over  bool
	said  map[string]bool // problems already reported to the user
	lost  []string        // problems since the end of the run

	wake chan struct{} // capacity 1
	done chan struct{}
}

// A target is one notification target.
type target struct {
	*jobspec.Notify
	label string
	order order
	bad   outcome   // why nothing can be sent to it; zero if it works
	held  []item    // items not sent yet
	due   time.Time // when to send the held items
}

// New returns a sink for a run that begins now. End and Close stop it.
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

// Continue adds the targets that only the batch's jobs have, and switches to the batch's secrets. The
// run's own targets stay as they were when the run began.
func (s *Sink) Continue(b *jobspec.Batch) { s.note(func() { s.batch = b }) }

// Fact records a fact that may be worth a notification.
func (s *Sink) Fact(job int, f state.Fact) {
	if f.Kind == state.KindStart || f.Kind == state.KindStalled || f.Kind == state.KindEnd {
		s.note(func() { s.facts = append(s.facts, event{job, f}) })
	}
}

// Snapshot records the state of the run.
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

// run sends notifications until the run is over.
func (s *Sink) run() {
	defer close(s.done)
	var d collector
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
			if len(s.targets) > 0 {
				d.hide = redact.Hiding(s.Secrets(batch))
			}
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

// hold keeps items for the targets that want them, so that related events can share a message.
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

// flush sends due messages, and returns the time until the next is due.
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

// End sends the last message, which reports how the run ended and the state of its jobs.
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

// Close waits briefly, at most until ctx is done, for messages to be sent. Its error names the
// targets that messages have not reached since End.
func (s *Sink) Close(ctx context.Context) error {
	all := make(chan struct{})
	s.Go(func() { s.sent.Wait(); close(all) })
	ctx, stop := context.WithTimeout(ctx, closeFor)
	defer stop()
	defer context.AfterFunc(ctx, s.stop)()
	<-all // it is closed soon after stop
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		return nil
	}
	return errors.New(strings.Join(s.lost, "\n"))
}
