package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// An Exec is a single command that starts as soon as GPUs are free. A keeper holds its claim on
// them, so the claim lasts until the command ends, even if gpurun is killed.
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
	lost   int // consecutive claims lost to other runs
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
	e.uniID = fmt.Sprintf("exec-%d-%d", os.Getpid(), time.Now().UnixNano())
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
	return e.ended(Foreground(e.Process, cmd, stop, e.bindClaim))
}

// wait reads the GPUs until enough are free, and claims them. indices reports whether GPU indices
// are reliable. wait closes the driver before the command starts, because an open driver prevents a
// GPU reset.
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
	pool, req := gpu.NewPool(p.Devices(), e.Rules), e.Request
	e.Opened(rules)
	if why, ok := pool.Possible(req); !ok {
		return false, &batches.Failure{Code: batches.ExitUsage, Text: why}
	}
	if err := e.open(p, pool); err != nil {
		return false, err
	}
	began, said := host.Boottime(), ""
	wish := gpu.Wish{Run: RunID(), UID: host.CurrentUID(), Name: execPrefix + e.Name, Since: time.Now(), Used: pool.Used(host.CurrentUID())}
	told := time.Duration(0)
	defer e.engine.Claims.Wish(gpu.Wish{})
	for {
		snap := Observe(ctx, p, rules, e.engine.Claims, e.Warn)
		e.Answered()
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		pool.Observe(snap)
		asks := wishRequests(pool, req, e.Needs)
		news := !reflect.DeepEqual(asks, wish.Requests) || snap.At >= told+wishInterval
		wish.Requests = asks
		pool.Turns.SetWish(wish)
		ok, why, pause := e.try(ctx, snap)
		if !ok && news && !e.Rules.AtOnce {
			e.engine.Claims.Wish(wish)
			told = snap.At
		}
		waited := host.Boottime() - began
		switch {
		case ok:
			if note := pool.Note(snap.At, req, e.grant); note != "" {
				e.Tell(note)
			}
			return indexed(p), nil
		case e.Rules.AtOnce:
			return false, &batches.Failure{Code: batches.ExitNotYet, Text: "no GPU free: " + why}
		case e.MaxWait > 0 && waited >= e.MaxWait:
			e.GaveUp = waited
			return false, &batches.Failure{Code: batches.ExitGaveUp, Text: why}
		case why != said:
			e.Tell("waiting: " + why)
			said = why
		}
		if e.MaxWait > 0 {
			pause = min(pause, e.MaxWait-waited)
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-e.engine.Events(): // claims or wishes of other runs have changed
		case <-time.After(pause):
		}
	}
}

// wishInterval is how often an unchanged wish is republished, in case its file was removed. Each
// publication wakes all waiting runs.
const wishInterval = 30 * time.Second

// wishRequests returns the request to publish, or nil if limits do not allow this user that many
// GPUs.
func wishRequests(pool *gpu.Pool, req gpu.Request, need gpu.HostResources) []gpu.WishRequest {
	if a := pool.WishRequest(host.Boottime(), req, 1, pool.Sick()); max(a.Room, a.Most) >= a.Min && len(a.UUIDs) > 0 {
		a.HostResources = need
		return []gpu.WishRequest{a}
	}
	return nil
}

// offeredPause is the time until an offered GPU is read again.
const offeredPause = 20 * time.Millisecond

// try claims GPUs, or returns why it could not and when to try again.
func (e *Exec) try(ctx context.Context, snap gpu.Observation) (ok bool, why string, pause time.Duration) {
	pool, req := e.pool, e.Request
	pause = max(e.Rules.Poll, 100*time.Millisecond)
	if snap.Err != "" {
		return false, "cannot read the GPUs: " + snap.Err, pause
	}
	theirs, until := pool.Turns.Theirs(snap.At)
	if until > 0 {
		pause = min(pause, until-snap.At)
	}
	if l := pool.Turns.Shortage(snap.At, gpu.HostResources{}, e.Needs); l != nil {
		return false, l.Why(gpu.HostResources{}, e.Needs), min(pause, time.Second)
	}
	if grant, ok := pool.Find(snap.At, req, theirs); ok {
		grant.HostResources = e.Needs
		lost := e.take(ctx, pool, grant)
		e.lost++
		return lost == "", lost, gpu.RaceBackoff(e.uniID, e.lost, pause)
	}
	e.lost = 0
	if len(pool.Offered()) > 0 { // the driver is still freeing the GPU's memory
		pause = min(pause, offeredPause)
	}
	var parts []string
	for _, v := range pool.Admit(snap.At, req) {
		if v.OK && slices.Contains(theirs, v.UUID) {
			v.OK, v.Reason = false, "another user's turn"
		}
		if !v.OK {
			parts = append(parts, fmt.Sprintf("GPU %d: %s", v.Index, v.Reason))
		}
	}
	return false, strings.Join(parts, "; "), pause
}

// offerTimeout is how long an ended command holds its GPUs for the runs that it offers them to.
// After that, those runs notice free GPUs themselves.
const offerTimeout = time.Second

// offerGPUs offers the GPUs of an ended command to the next runs in line. It waits until they
// accept, because the offers end with this process.
func (e *Exec) offerGPUs() {
	if e.engine.Engine == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), offerTimeout)
	defer stop()
	e.pool.AdvanceTo(host.Boottime())
	e.pool.Turns.SetWish(gpu.Wish{})
	e.readNeighbors(ctx)
	if !e.pool.Turns.HasRivals() {
		return
	}
	turns := map[gpu.UUID]gpu.Turn{}
	left := e.pool.Release(host.Boottime(), e.uniID)
	for i, id := range left {
		if turn, ok := e.pool.Turns.Next(host.Boottime(), id, left[i:]...); ok {
			turns[id] = turn
			e.pool.Offer(id, turn.Run)
			e.engine.Claims.Offer(e.uniID, id, turn.Run)
		}
	}
	for len(turns) > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-e.engine.Events():
		case <-time.After(offeredPause):
		}
		e.readNeighbors(ctx)
		maps.DeleteFunc(turns, e.pool.WasTaken)
	}
}

func (e *Exec) readNeighbors(ctx context.Context) {
	others, _ := e.engine.Claims.Others(ctx, nil)
	e.pool.ObserveOthers(host.Boottime(), others, e.engine.Claims.Wishes())
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
