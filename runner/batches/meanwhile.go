package batches

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/engine"
	"gpurun/state"
	"gpurun/state/disk"
)

// openAttempts describes the attempts that a ledger leaves open.
type openAttempts struct {
	found map[string]engine.Found // by uni_id: attempts that are still alive
	ended map[string]ending       // by uni_id: attempts that have ended; settle has added their ends to the history
	Away  map[string]string       // by uni_id: the other host on which the attempt may still be running
}

// An ending is the end of an attempt that its ledger lacks.
type ending struct {
	ledger int
	state.Fact
}

// meanwhile reports whether an attempt has ended since its run was killed.
func (m openAttempts) meanwhile(uniID string) bool {
	_, ended := m.ended[uniID]
	return ended
}

// Settle calls settle for a batch once, and returns that result to later calls.
func (ref *Ref) Settle() openAttempts {
	if ref.after == nil {
		m := settle(ref.Batch, ref.History, ref.Folder, ref.Alive)
		ref.after = &m
	}
	return *ref.after
}

// settle inspects the traces of a history's open attempts on this host, and completes the history
// as the next run would. It writes nothing. alive means that a run exists but does not answer; then
// only recorded ends count.
func settle(b *jobspec.Batch, h *state.History, dir func(ledger int) string, alive bool) openAttempts {
	m := openAttempts{found: map[string]engine.Found{}, ended: map[string]ending{}, Away: map[string]string{}}
	look := Looker()
	job := runner.JobFinder(b)
	readings := sync.OnceValue(func() *state.GPUReadings { return disk.GPUReadings(dir(0)) })
	watched := func(since time.Time) time.Time { return readings().Until(since) }
	for _, at := range h.Attempts() {
		uni := at.Start.UniID
		if run := h.LastRun(at.Ledger); at.Start.Engine == "" && !disk.OnThisHost(run) {
			m.Away[uni] = run.Host
			continue
		}
		folder := disk.AttemptDir(dir(at.Ledger), uni)
		f := look(folder, uni)
		switch {
		case f.PID != 0, f.Ended == nil && (alive || at.Start.Engine != ""):
			m.found[uni] = f
			continue
		case f.Ended == nil:
			f.Ended = &state.End{ExitCode: -1, Lost: true, Void: !f.Began}
		}
		end := runner.Meanwhile(b, job(at), at, folder, *f.Ended, watched, runner.Now())
		m.ended[uni] = ending{at.Ledger, end}
		h.Apply(at.Ledger, end)
	}
	return m
}

func (m openAttempts) words(a *state.Attempt) string {
	uni := a.Start.UniID
	if host := m.Away[uni]; host != "" {
		return "may still be running on " + host
	}
	f, ok := m.found[uni]
	switch {
	case ok && a.Start.Engine != "" && f.Host != "":
		return fmt.Sprintf("was running on %s of %s; the next run reattaches to it", f.Host, a.Start.Engine)
	case ok && a.Start.Engine != "":
		return strings.TrimSpace(fmt.Sprintf("was queued on %s %s", a.Start.Engine, a.JobID)) + "; the next run reattaches to it"
	case !ok || f.PID == 0:
		return ""
	case f.Original != "":
		return fmt.Sprintf("still running as process %d for %s; this state folder is a copy of that one", f.PID, f.Original)
	case f.Keeper == 0:
		return fmt.Sprintf("still running without its keeper, as process %d", f.PID)
	}
	return fmt.Sprintf("still running under its keeper, as process %d", f.PID)
}
