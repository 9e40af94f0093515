package cluster

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
	"gpurun/state/host"
)

// slack extends the cluster's time limit beyond a job's timeout and grace, so that gpurun's exact
// timeout, with its reason, comes first.
const slack = 2 * time.Minute

// submitNext begins to submit the first queued attempt and all others with the same arguments.
// There is one call at a time, so attempts that arrive during a call are submitted together.
func (c *Cluster) submitNext() {
	c.quota.awaits = false
	if c.calling || len(c.queue) == 0 || time.Now().Before(c.again) {
		return
	}
	batch, args := c.next(math.MaxInt)
	if len(batch) == 0 || (c.limits != limits{0, -1}) && !c.settled() {
		return
	}
	n := c.within(len(batch), gpusOf(batch[0]))
	kept := n == 0 && c.keeps(batch[0])
	for n == 0 { // smaller ones may overtake it
		most := gpusOf(batch[0]) - 1
		if kept {
			most = 0 // the quota limits only GPUs
		}
		if batch, args = c.next(most); len(batch) == 0 {
			return
		}
		n = c.within(len(batch), gpusOf(batch[0]))
	}
	gpus := gpusOf(batch[0])
	_, most := c.arrays(arrayShare{gpus: gpus, waiting: n})
	if !c.restricted.IsZero() {
		most = 0
	}
	if most == 0 && n < c.most && time.Since(c.launched) < gatherHeld {
		c.batchLaunches(gatherHeld)
		return
	}
	batch = batch[:n]
	id := make([]byte, 4)
	_, _ = rand.Read(id)
	s := &submit{id: hex.EncodeToString(id), busy: true, preparing: true}
	s.name = c.nameOf(batch, s.id)
	s.dir = filepath.Join(c.Dir, submitsDir, s.name)
	a := Array{Name: s.name, State: c.Dir, Tasks: n}
	if a.Held = most == 0; most < n {
		a.Throttle = max(most, 1)
	}
	s.throttle, s.marks = cmp.Or(a.Throttle, n), bytes.Repeat([]byte{' '}, n)
	if a.Held {
		s.marks = bytes.Repeat([]byte{heldMark}, n)
	}
	for i, l := range batch {
		e := c.live[l.UniID]
		e.held = a.Held
		e.assign(s, i)
	}
	c.queue = slices.DeleteFunc(c.queue, func(l *engine.Launch) bool { return c.live[l.UniID].submit != nil })
	c.submits[s.id] = s
	c.calling = true
	c.outage.begin("submit")
	c.inBackground(func() func() {
		err := c.prepare(s, batch)
		return func() {
			s.preparing = false
			if err != nil {
				c.unprepared(s, batch, err)
				return
			}
			c.inBackground(func() func() {
				refusal, text := c.call(s, a, args)
				return func() { c.called(s, batch, args, refusal, text) }
			})
		}
	})
}

// next returns the first attempt that may be submitted and those that can share its array, in
// order, with their arguments. It ends an attempt whose request cannot be expressed as arguments, and
// skips those that request more than most GPUs.
func (c *Cluster) next(most int) (batch []*engine.Launch, args []string) {
	slices.SortStableFunc(c.queue, func(a, b *engine.Launch) int { return cmp.Compare(a.Rank, b.Rank) })
	for i, l := range c.queue {
		e := c.live[l.UniID]
		if e.paused || gpusOf(l) > most {
			continue
		}
		if time.Now().Before(c.displaced[l.Job].until) {
			c.emitQueued(e, engine.Queued{Reason: c.dialect.Name() + " preempted it before it began; gpurun will submit it again within a minute"})
			continue
		}
		own, err := c.argsOf(l)
		switch {
		case batch == nil && err != nil:
			c.queue = slices.Delete(c.queue, i, i+1)
			c.end(e, &state.End{ExitCode: -1, At: time.Now(), Err: err.Error(), Refused: true})
			return nil, nil
		case batch == nil && time.Now().Before(c.refused[strings.Join(own, "\n")].until):
			continue
		case batch == nil:
			args = own
		case err != nil || !slices.Equal(own, args):
			continue
		}
		if batch = append(batch, l); len(batch) == c.most {
			break
		}
	}
	return batch, args
}

func (c *Cluster) argsOf(l *engine.Launch) ([]string, error) {
	a := jobRequestOf(l)
	a.Small = c.tooSmall(&a.Request)
	return c.dialect.Args(a)
}

func jobRequestOf(l *engine.Launch) (a JobRequest) {
	if l.Request != nil {
		a.Request = *l.Request
	}
	if a.Limit == 0 && l.Timeout > 0 {
		a.Limit = l.Timeout + l.Grace + slack
		if l.TimeoutSignal != nil {
			a.Limit += l.TimeoutSignal.Grace
		}
	}
	return a
}

// prepare writes the files of a submission and its attempts.
func (c *Cluster) prepare(s *submit, batch []*engine.Launch) error {
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	env, err := packEnv(c.Environ)
	if err != nil {
		return err
	}
	var launches []byte
	for _, l := range batch {
		l := *l
		if a := jobRequestOf(&l); a.vouched() { // nothing is left to check on the node
			a.GPUMemory = 0
			l.Request = &a.Request
		}
		b, err := wire.Pack(&l)
		if err != nil {
			return err
		}
		launches = append(append(launches, b...), '\n')
	}
	for _, f := range []struct {
		name    string
		content []byte
		mode    os.FileMode
	}{
		{launchesFile, launches, 0o600}, {envFile, env, 0o600}, {stopsFile, bytes.Repeat([]byte{' '}, len(batch)*stopSize), 0o644},
		{holdsFile, s.marks, 0o600}, {callingFile, nil, 0o600}, {answerFile, nil, 0o644}, {errFile, nil, 0o644},
	} {
		if err := write(filepath.Join(s.dir, f.name), f.content, f.mode); err != nil {
			return err
		}
	}
	errs := make([]error, len(batch))
	c.atOnce(len(batch), func(i int) {
		l := batch[i]
		err := writeStatus(l.Dir, place{Engine: c.dialect.Name(), Submit: s.dir, Task: i, GPUs: gpusOf(l)})
		if !errors.Is(err, fs.ErrNotExist) { // otherwise the attempt was stopped in the meantime, and its task will run nothing
			errs[i] = err
		}
	})
	return cmp.Or(errs...)
}

// filesAtOnce is how many attempts' files are created concurrently, since each creation is slow over a
// network.
const filesAtOnce = 16

// atOnce calls do for n attempts, several concurrently.
func (c *Cluster) atOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	turn := make(chan struct{}, filesAtOnce)
	for i := range n {
		all.Add(1)
		turn <- struct{}{}
		c.Go(func() {
			defer all.Done()
			do(i)
			<-turn
		})
	}
	all.Wait()
}

// unprepared ends attempts whose files could not be written: nothing was submitted.
func (c *Cluster) unprepared(s *submit, batch []*engine.Launch, err error) {
	c.calling, s.busy = false, false
	c.outage.done("submit", nil)
	for _, l := range batch {
		if e := c.live[l.UniID]; e != nil {
			forbid(e.Dir)
			c.end(e, &state.End{ExitCode: -1, At: time.Now(), NoRoom: true, Err: "cannot submit: " + err.Error()})
		}
	}
	_ = os.RemoveAll(s.dir)
	delete(c.submits, s.id)
}

// call runs the submit command. Its output goes straight to the answer file, and it inherits a
// lock that shows whether it is still running, so a later run can learn the result.
func (c *Cluster) call(s *submit, a Array, args []string) (Refusal, string) {
	if why, _ := c.dialect.Limits(args).Run(); why != "" { // after an error, the limits are unknown, so submit anyway
		return Never, why
	}
	command := c.dialect.Submit(a, args)
	files := map[string]*os.File{callingFile: nil, answerFile: nil, errFile: nil}
	for name := range files {
		f, err := host.OpenOwn(filepath.Join(s.dir, name), os.O_RDWR, 0)
		if err != nil {
			return Unreachable, err.Error()
		}
		defer f.Close()
		files[name] = f
	}
	_ = unix.Flock(int(files[callingFile].Fd()), unix.LOCK_EX|unix.LOCK_NB)
	cmd := exec.Command(command.Args[0], command.Args[1:]...)
	cmd.Env = append(environ(), command.Env...)
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader(c.script(s))
	cmd.Stdout, cmd.Stderr = files[answerFile], files[errFile]
	cmd.ExtraFiles = []*os.File{files[callingFile]}
	if c.Lock != nil && !c.quota.locked.IsZero() { // the command keeps the lock until the cluster has the jobs, even if this run ends
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.Lock)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Never, err.Error()
	}
	limit := time.AfterFunc(submitLimit, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil {
		text := readText(filepath.Join(s.dir, errFile))
		_, refusal, why := c.dialect.Answer("", text)
		switch {
		case refusal == Fewer && a.Tasks == 1:
			refusal = Never
		case refusal == Never && !cmd.ProcessState.Exited():
			refusal = Unclear // it was killed, so its output is not final
		}
		if refusal == Never && why == "" {
			_, text, _ = c.dialect.Try(args).run()
			_, _, why = c.dialect.Answer("", text)
		}
		return refusal, cmp.Or(why, commandError(err, text).Error())
	}
	return Unclear, ""
}

// script returns the script that every task runs.
func (c *Cluster) script(s *submit) string {
	variable := c.dialect.Traits(c.Options).Granted
	if variable != "" {
		variable = quoted(variable)
	}
	return fmt.Sprintf("#!/bin/sh\n[ -d %s ] || exit %d\n[ -x %s ] || exit %d\nexec %s __task %s %s\n",
		quoted(s.dir), exitNoState, quoted(c.binary), exitNoBinary, quoted(c.binary), quoted(s.dir), variable)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// A backoff is the pause after a refused submission or a preemption, longer each time.
type backoff struct {
	until time.Time
	pause time.Duration
}

// next returns the backoff after one more refusal.
func (b backoff) next() backoff {
	pause := min(max(refusedPause, 2*b.pause), longestPause)
	return backoff{time.Now().Add(pause), pause}
}

// Pauses after a temporary refusal.
const (
	refusedPause = 10 * time.Second
	fewerPause   = time.Second
)

// called handles the answer to a submission with these arguments.
func (c *Cluster) called(s *submit, batch []*engine.Launch, args []string, refusal Refusal, text string) {
	c.calling, s.busy = false, false
	key := strings.Join(args, "\n")
	if s.job, _, _ = c.dialect.Answer(readText(filepath.Join(s.dir, answerFile)), ""); s.job != "" {
		c.outage.done("submit", nil)
		delete(c.refused, key)
		c.most = min(2*c.most, c.largest)
		for _, l := range batch {
			if e := c.live[l.UniID]; e != nil && !e.reported {
				c.emitQueued(e, engine.Queued{JobID: c.dialect.Task(s.job, e.n)})
			}
		}
		return
	}
	c.Log.Warn().Str("name", s.name).Str("error", text).Msg("submission refused")
	if slices.ContainsFunc(batch, func(l *engine.Launch) bool { return c.live[l.UniID] != nil && claimedBy(l.Dir) != "" }) {
		refusal = Unclear // a node has claimed an attempt, so the cluster did accept the array
	}
	switch refusal {
	case Never:
		c.outage.done("submit", nil)
		for _, l := range batch {
			if e := c.live[l.UniID]; e != nil && forbid(e.Dir) {
				c.end(e, &state.End{ExitCode: -1, At: time.Now(), Err: c.dialect.Name() + ": " + text + c.excludedNodes(l), Refused: true})
			}
		}
	case Fewer, Full, Later, Unreachable:
		c.outage.done("submit", nil)
		if (refusal == Fewer || refusal == Full) && len(batch) > 1 {
			c.most, c.again = len(batch)/2, time.Now().Add(fewerPause)
			if refusal == Fewer {
				c.largest = c.most
			}
		} else {
			c.backOff(batch, key, refusal, text)
		}
		c.requeue(s, batch)
	default: // it may have been accepted: the next lists will show
		c.outage.done("submit", fmt.Errorf("%s", text))
		c.unclear = true
	}
}

// backOff delays submissions with the arguments of a batch that was temporarily refused.
func (c *Cluster) backOff(batch []*engine.Launch, key string, refusal Refusal, text string) {
	c.refused[key] = c.refused[key].next()
	if refusal == Unreachable {
		c.outage.done("submit", errors.New(text))
		return
	}
	why := c.dialect.Name() + " accepts no more jobs like these now: " + text
	c.emit(engine.Event{Warnings: []string{"some jobs wait, because " + why + "; gpurun will retry"}})
	for _, l := range batch {
		if e := c.live[l.UniID]; e != nil {
			c.emitQueued(e, engine.Queued{Reason: why})
		}
	}
}

// retrySoon shortens all backoffs, because there may be room now.
func (c *Cluster) retrySoon() {
	c.quota.full = 0
	for key, r := range c.refused {
		if soon := time.Now().Add(refusedPause); r.until.After(soon) {
			c.refused[key] = backoff{until: soon}
		}
	}
}

// tooSmall returns the nodes that are known to have GPUs with too little memory for a request.
func (c *Cluster) tooSmall(ask *engine.Request) (nodes []string) {
	for _, node := range slices.Sorted(maps.Keys(c.small)) {
		if ask != nil && ask.GPUs > 0 && c.small[node] < ask.GPUMemory {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// excludedNodes describes the nodes that an attempt excludes because their GPUs are too small.
func (c *Cluster) excludedNodes(l *engine.Launch) string {
	var nodes []string
	for _, node := range c.tooSmall(l.Request) {
		nodes = append(nodes, fmt.Sprintf("%s (%s)", node, c.small[node].Round()))
	}
	if len(nodes) == 0 {
		return ""
	}
	return fmt.Sprintf("; gpu_memory (%s) excludes %s", l.Request.GPUMemory.Round(), strings.Join(nodes, ", "))
}

// requeue puts attempts back into the queue once it is certain that their submission was refused. It
// removes that submission's files from their folders.
func (c *Cluster) requeue(s *submit, batch []*engine.Launch) {
	var again []*engine.Launch
	for _, l := range batch {
		e := c.live[l.UniID]
		if e == nil {
			continue
		}
		e.submit, e.held = nil, false
		if err := os.Remove(filepath.Join(e.Dir, wire.StatusFile)); err != nil {
			forbid(e.Dir)
			c.end(e, &state.End{ExitCode: -1, At: time.Now(), NoRoom: true, Err: "cannot resubmit: " + err.Error()})
			continue
		}
		again = append(again, l)
	}
	delete(c.submits, s.id)
	_ = os.RemoveAll(s.dir)
	c.queue = append(again, c.queue...)
}

// isCalling reports whether the submission may still be in progress, in this run or in a command
// that an earlier run started.
func (s *submit) isCalling() bool {
	if s.busy {
		return true
	}
	f, err := host.OpenOwn(filepath.Join(s.dir, callingFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return err == unix.EWOULDBLOCK
}

func readText(path string) string {
	b, _ := host.ReadOwn(path, 1<<24)
	return string(b)
}
