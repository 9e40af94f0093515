package runner

import (
	"time"

	"gpurun/jobspec"
	"gpurun/runner/sched"
)

// An ahead is an attempt that is likely to be the next one, made ready as far as
// nobody can see it: its folder, its port, its commands and environment. Nothing of
// it is in the ledger, and its log has not been touched.
type ahead struct {
	sched.Event // never reaches the core
	hint        sched.Soon
	at          *attempt
	start       sched.Prepared
	out         jobspec.Rendered
	made        time.Duration // CLOCK_BOOTTIME
	done        bool          // it is ready; or it could not be made, and at is nil
	wanted      *sched.Prepare
}

// freshFor is how long what was made ahead is used: a port may be taken meanwhile,
// and the uni_id says when the attempt began.
const freshFor = time.Second

// prepareSoon makes ready what the core expects to start next. It leaves alone what
// must be as it is at the start itself: inputs, a config file, a log that others
// may be writing to.
func (l *loop) prepareSoon(hint sched.Soon) {
	job := &l.Batch.Jobs[hint.Job]
	if job.Spec.HasInputs || job.Spec.LogNamed {
		return
	}
	l.forgetSoon()
	n := &ahead{hint: hint}
	l.next = n
	now := l.Now()
	l.Go(func() {
		l.makeAhead(n, job, now)
		select {
		case l.inbox <- n:
		case <-l.ctx.Done():
			l.release(n)
		}
	})
}

// makeAhead fills in n, which the loop does not touch before it has it back.
func (l *loop) makeAhead(n *ahead, job *jobspec.Job, now sched.Now) {
	uniID, dir, err := l.Ledger.NewAttempt(job.File)
	if err != nil {
		return // the start itself will say so
	}
	n.made = now.Boot
	port := l.ports.take()
	p := sched.Prepare{Job: n.hint.Job, Attempt: n.hint.Attempt}
	at, start, r, err := l.furnish(p, job, uniID, dir, port)
	n.at = &attempt{file: job.File, uniID: uniID, port: port}
	if err != nil || r.Config != nil {
		l.release(n)
		return
	}
	n.at, n.out = at, r
	n.start = sched.Prepared{Job: p.Job, Start: start}
}

// readySoon takes over what has been made ahead, or has it go on where it is asked for.
func (l *loop) readySoon(n *ahead) {
	n.done = true
	if l.next != n && n.wanted == nil {
		l.release(n)
		return
	}
	if n.wanted != nil && !l.useAhead(n, *n.wanted) {
		l.prepareNow(*n.wanted)
	}
}

// fromSoon answers a Prepare with what has been made ahead; false when there is none.
func (l *loop) fromSoon(a sched.Prepare) bool {
	n := l.next
	if n == nil || n.hint.Job != a.Job || n.hint.Attempt != a.Attempt || len(a.Grant.UUIDs) > 0 {
		return false
	}
	l.next = nil
	if !n.done {
		n.wanted = &a
		return true
	}
	return l.useAhead(n, a)
}

// useAhead completes an attempt that was made ahead, and has the core told.
func (l *loop) useAhead(n *ahead, a sched.Prepare) bool {
	now := l.Now()
	if n.at == nil || now.Boot-n.made > freshFor {
		l.release(n)
		return false
	}
	first := !l.fresh[a.Job]
	l.fresh[a.Job] = true
	if err := n.at.openLogs(n.out, a.Attempt, first, now.Wall); err != nil {
		l.release(n)
		l.later(refused(a.Job, err))
		return true
	}
	l.live[n.at.uniID] = n.at
	l.later(n.start)
	return true
}

// forgetSoon drops what was made ahead for nothing.
func (l *loop) forgetSoon() {
	if n := l.next; n != nil && n.done {
		l.release(n)
	}
	l.next = nil
}

// release gives back what an attempt holds that was made ahead.
func (l *loop) release(n *ahead) {
	if n.at == nil {
		return
	}
	l.ports.give(n.at.port)
	l.Ledger.RemoveAttempt(n.at.file, n.at.uniID)
	n.at = nil
}
