package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/host"
)

// An Exec is a run of a single command in the foreground, without a ledger or logs. A keeper holds
// its claim, so the claim lasts until the command ends, even if gpurun is killed.
type Exec struct {
	*Process
	Name     string // as shown to other users
	Source   *GPUs
	Request  gpu.Request
	Needs    gpu.HostResources
	Rules    gpu.Rules
	MaxWait  time.Duration     // 0 for no limit
	Opened   func(HostRules)   // called with the host rules
	Answered func()            // called after each reading of the GPUs
	Tell     func(text string) // reports the reason for a wait
	GaveUp   time.Duration     // how long Exec waited before it gave up; 0 if it did not

	uniID  string
	grant  gpu.Grant
	core   *sched.Core                              // nil if the command needs no GPUs
	read   func(ctx context.Context) sched.Observed // reads the GPUs, until the command starts
	wakeAt time.Duration                            // as requested by the core; 0 for never
	reads  bool                                     // the core has requested a reading
	starts bool                                     // the core has let the command start
	done   bool                                     // the core has finished
	keeps  bool                                     // processes of the ended command keep the claim
	pool   *gpu.Pool
	spent  *claimSet
	engine engine.Opened // its Engine is nil if the command needs no GPUs
	timer  *time.Timer   // for the host's max_timeout, or nil
	over   chan struct{} // closed when the timer has ended the command
}

// execPrefix precedes the command's name in claims.
const execPrefix = "exec "

// Run waits for GPUs and runs the command on them.
func (e *Exec) Run(path string, argv []string) error {
	e.uniID = newExecID()
	ctx, stop := e.UntilSignal()
	defer stop()
	defer e.release()
	indexed, err := e.wait(ctx)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	env := append(os.Environ(), "GPURUN_UNI_ID="+e.uniID)
	cmd := &exec.Cmd{Path: path, Args: argv, Env: append(env, e.grant.Environ(indexed)...), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	defer e.offerGPUs()
	return e.ended(Foreground(e.Process, cmd, stop, e.bindClaim, false))
}

// wait lets the core find and claim GPUs. indices reports whether GPU indices are reliable. wait
// closes the driver before the command starts, because an open driver prevents a GPU reset.
func (e *Exec) wait(ctx context.Context) (indices bool, err error) {
	if e.Request.Min == 0 {
		return true, nil
	}
	if err := e.Source.check(ctx); err != nil {
		return false, err
	}
	p, err := e.Source.Open(ctx, zerolog.Nop())
	if err != nil {
		return false, err
	}
	defer p.Close()
	rules := HostRulesOf(p)
	e.Rules, err = rules.Rules(e.Rules, p.Devices(), e.Source.Sim != "")
	if err != nil {
		return false, err
	}
	pool := gpu.NewPool(p.Devices(), e.Rules)
	e.Opened(rules)
	if why, ok := pool.Possible(e.Request); !ok {
		return false, &batches.Failure{Code: batches.ExitUsage, Text: why}
	}
	if err := e.open(p, pool); err != nil {
		return false, err
	}
	e.read = func(ctx context.Context) sched.Observed {
		defer e.Answered()
		return sched.Observed{Observation: Observe(ctx, p, rules, e.engine.Claims, e.Warn)}
	}
	began, said := host.Boottime(), ""
	tellAt, pause := began, time.Second // reasons may change with each job of other runs
	e.step(ctx, sched.Began{})
	for {
		ev := e.next(ctx)
		e.step(ctx, ev)
		_, current := ev.(sched.Observed) // before a reading, the core may know of a GPU only that it must be read
		switch why := e.core.Why(runner.Now(), 0); {
		case ctx.Err() != nil:
			e.step(ctx, sched.StopRequested{All: true}) // withdraws its wish, and claims of gathered GPUs
			return false, context.Cause(ctx)
		case e.starts:
			return indexed(p), nil
		case e.done:
			f := &batches.Failure{Code: batches.ExitGaveUp, Text: e.core.Snapshot(runner.Now()).Live.Next.Text}
			if e.GaveUp = host.Boottime() - began; e.Rules.AtOnce {
				f.Code, f.Text, e.GaveUp = batches.ExitNotYet, "no GPU free: "+f.Text, 0
			}
			return false, f
		case current && why != "" && why != said && host.Boottime() >= tellAt:
			e.Tell("waiting: " + why)
			said, tellAt, pause = why, host.Boottime()+pause, min(2*pause, time.Minute)
		}
	}
}

// step passes an event to the core and performs the resulting actions.
func (e *Exec) step(ctx context.Context, ev sched.Event) {
	claims := e.engine.Claims
	for events := []sched.Event{ev}; len(events) > 0; events = events[1:] {
		for _, a := range e.core.Step(runner.Now(), events[0]) {
			switch a := a.(type) {
			case sched.Read:
				e.reads = true
			case sched.Prepare:
				events = append(events, e.claim(ctx, a))
			case sched.Gather:
				others, warnings, err := claims.Claim(ctx, a.UniID, a.Job, a.Grant)
				e.Warn(warnings...)
				events = append(events, sched.Gathered{UniID: a.UniID, Failed: err != nil, Claims: others})
			case sched.Discard:
				claims.Withdraw(a.UniID)
			case sched.Ungather:
				claims.Withdraw(a.UniID)
			case sched.Quarantine:
				if claims.Quarantine(a.Quarantine) == nil {
					events = append(events, sched.Published{UUID: a.UUID})
				}
			case sched.Wish:
				claims.Wish(a.Wish)
			case sched.Offer:
				claims.Offer(a.UniID, a.UUID, a.To)
			case sched.Warn:
				e.Warn(a.Text)
			case sched.Wake:
				e.wakeAt = a.At
			case sched.Launch:
				e.starts = true
			case sched.Finish:
				e.done = true
			}
		}
	}
}

func newExecID() string { return fmt.Sprintf("exec-%d-%d", os.Getpid(), time.Now().UnixNano()) }

// claim claims the grant of a start. Each claim has its own uni_id: when a keeper that answered too
// late drops its claim, it must not drop the next one.
func (e *Exec) claim(ctx context.Context, a sched.Prepare) sched.Event {
	e.uniID = newExecID()
	others, warnings, err := e.engine.Claims.Claim(ctx, e.uniID, execPrefix+e.Name, a.Grant)
	e.Warn(warnings...)
	if err != nil {
		return sched.PrepareFailed{Rival: true, Reason: err.Error()}
	}
	if e.grant = a.Grant; a.Note != "" {
		e.Tell(a.Note)
	}
	return sched.Prepared{Start: state.Fact{UniID: e.uniID}, Claims: others}
}

// next waits for the core's next event.
func (e *Exec) next(ctx context.Context) sched.Event {
	if e.reads && !e.starts {
		e.reads = false
		return e.read(ctx)
	}
	var due <-chan time.Time
	if e.wakeAt > 0 {
		due = time.After(e.wakeAt - host.Boottime())
	}
	select {
	case <-e.engine.Events(): // claims or wishes of other runs have changed
		return e.neighbors(ctx)
	case <-due:
		e.wakeAt = 0
	case <-ctx.Done():
	}
	return sched.Woken{}
}

func (e *Exec) neighbors(ctx context.Context) sched.Event {
	others, _ := e.engine.Claims.Others(ctx, nil)
	return sched.ClaimsChanged{Claims: others, Wishes: e.engine.Claims.Wishes()}
}

// offerTimeout is how long an ended command may hold its GPUs for the runs that it offers them to.
const offerTimeout = time.Second

// offerGPUs lets the core offer the GPUs of an ended command to the next runs in line. It waits until
// they accept, because the offers end with this process.
func (e *Exec) offerGPUs() {
	if e.core == nil {
		return
	}
	if e.keeps = e.outlived(); e.keeps {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), offerTimeout)
	defer stop()
	e.step(ctx, e.neighbors(ctx))
	e.step(ctx, sched.Ended{UniID: e.uniID, Good: true})
	for !e.done && ctx.Err() == nil {
		e.step(ctx, e.next(ctx))
	}
}

// StopExec stops this user's running and waiting exec commands with that name, and returns the
// number of processes stopped.
func StopExec(name string) (stopped int) {
	r := claim.NewReader(ClaimRoots(nil, execFolder()))
	claims, _ := r.Others(context.Background())
	for _, c := range claims {
		if c.UID == host.CurrentUID() && c.Job == execPrefix+name && strings.HasPrefix(c.Attempt, "exec-") {
			stopped += endCommand(c.Attempt, commandOf(&c)...)
		}
	}
	for _, w := range r.Wishes() {
		if w.UID == host.CurrentUID() && w.Name == execPrefix+name && w.PID > 0 && unix.Kill(w.PID, unix.SIGTERM) == nil {
			stopped++
		}
	}
	return stopped
}

// commandOf returns the processes that the exec with claim c has started for its command, or none
// if that exec was killed.
func commandOf(c *gpu.Claim) (roots []procs.ID) {
	keeper, ok := procs.One(c.PID)
	if !ok || !strings.HasPrefix(c.Attempt, fmt.Sprintf("exec-%d-", keeper.Parent)) {
		return nil
	}
	for _, p := range procs.Read() {
		if p.Parent == keeper.Parent && p.ID != keeper.ID {
			roots = append(roots, p.ID)
		}
	}
	return roots
}
