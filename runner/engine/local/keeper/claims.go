package keeper

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
)

// claims are a keeper's claims on GPUs. A claim depends on the run that asked for it
// until its attempt is launched, and then on the attempt's processes. When these are
// gone it depends on the run again, which hands the GPUs over to its next attempt and
// then withdraws the claim.
type claims struct {
	mu     sync.Mutex
	holder *claim.Holder          // nil before the first request
	all    map[string]*claimState // by uni_id
}

// A claimState is the state of one claim, with the run and the processes that it depends on.
type claimState struct {
	made, dropped bool
	run           *wire.Link  // run that asked for it or adopted its attempt; nil once that run is gone
	loose         bool        // the claim ends when its run is gone
	left          bool        // its command has ended, but left processes
	trees         []procs.ID  // its processes, if this keeper is not their parent
	bound         *time.Timer // ends a hand-over that takes too long
}

// handOverFor is how long a run may take to hand a GPU over. A suspended runner must not keep the
// GPU forever.
const handOverFor = 30 * time.Second

// keepEvery is how often claims are checked. If another process removes a claim's file or folder,
// the claim may be invisible for that long.
const keepEvery = 2 * time.Second

// open creates the holder on the first call and starts to maintain its claims, passing any warnings
// to warn.
func (c *claims) open(roots []string, warn func([]string)) *claim.Holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder == nil {
		c.holder = claim.Open(roots)
		go func() {
			for range time.Tick(keepEvery) {
				if w := c.holder.Keep(); len(w) > 0 {
					warn(w)
				}
			}
		}()
	}
	return c.holder
}

// begin registers a claim before it is made, so that a request to end it in the meantime is not
// lost.
func (c *claims) begin(uniID string, l *wire.Link, trees []procs.ID) *claimState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*claimState{}
	}
	s := &claimState{run: l, loose: true, trees: trees}
	c.all[uniID] = s
	return s
}

// drop ends a claim. It returns false if the claim is still being made, in which case the claim
// ends as soon as it has been made.
func (c *claims) drop(uniID string) bool {
	c.mu.Lock()
	s, h := c.all[uniID], c.holder
	made := s == nil || s.made
	if s != nil {
		s.dropped = true
		if s.bound != nil {
			s.bound.Stop()
		}
	}
	if made {
		delete(c.all, uniID)
	}
	c.mu.Unlock()
	if s != nil && h != nil {
		h.Release(uniID)
	}
	return made
}

// change changes the state of a claim that has not ended.
func (c *claims) change(uniID string, change func(*claimState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.all[uniID]; s != nil {
		change(s)
	}
}

// launched makes the claim depend on its attempt from now on.
func (c *claims) launched(uniID string) {
	c.change(uniID, func(s *claimState) { s.loose = false })
}

// followed records that the run at the other end of l adopted the attempt and will hand over the
// attempt's GPUs.
func (c *claims) followed(uniID string, l *wire.Link) {
	c.change(uniID, func(s *claimState) { s.run = l })
}

// setProcesses records the processes that the claim's runner runs itself, or that their command has
// left. If they outlive the runner, they keep the claim.
func (c *claims) setProcesses(uniID string, trees []procs.ID, left bool) {
	c.change(uniID, func(s *claimState) { s.trees, s.left = trees, left })
}

// handOver keeps an ended attempt's claim, so that the attempt's run can hand the GPUs over. It
// returns false if the run is gone.
func (c *claims) handOver(uniID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, h := c.all[uniID], c.holder
	if s == nil || s.run == nil {
		return false
	}
	s.loose = true
	h.HandOver(uniID)
	s.bound = time.AfterFunc(handOverFor, func() { c.drop(uniID) })
	return true
}

// give releases these devices from a claim. It returns false while the claim holds other devices.
func (c *claims) give(uniID string, ids []gpu.UUID) bool {
	c.mu.Lock()
	h := c.holder
	c.mu.Unlock()
	if h != nil && h.Give(uniID, ids) {
		return false
	}
	return c.drop(uniID)
}

// offer lets another run have these devices of a claim.
func (c *claims) offer(uniID string, ids []gpu.UUID, to string) {
	c.mu.Lock()
	h := c.holder
	c.mu.Unlock()
	if h != nil {
		h.Offer(uniID, ids, to)
	}
}

// has reports whether a claim is held or being made.
func (c *claims) has(uniID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.all[uniID]
	return s != nil && !s.dropped
}

// dropRun handles the loss of the run at the other end of l, and returns the claims that depended
// on that run.
func (c *claims) dropRun(l *wire.Link) map[string]claimState {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]claimState{}
	for uniID, s := range c.all {
		if s.run != l {
			continue
		}
		s.run = nil
		if s.loose {
			found[uniID] = *s
		}
	}
	return found
}

// warn sends warnings to every runner and writes them to keeper.log.
func (k *keeper) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(os.Stderr, w)
	}
	k.tell(&wire.Message{Op: wire.Warn, Warnings: warnings})
}

// claim makes a claim and answers, in the background. The keeper stays until then, since it would
// leave the file of a claim that it is publishing.
func (k *keeper) claim(l *wire.Link, m *wire.Message) {
	if m.Claim == nil {
		return
	}
	s := k.claims.begin(m.UniID, l, m.Claim.Trees)
	k.outlast("making a claim", func() {
		answer := &wire.Message{Op: wire.Claimed, UniID: m.UniID}
		h := k.claims.open(m.Claim.Roots, k.warn)
		answer.Err = "the keeper failed to claim the GPUs; see keeper.log"
		contained("the claim of "+m.UniID, func() {
			others, warnings, err := h.Claim(context.Background(), claim.Subject{UniID: m.UniID, Job: m.Claim.Job, Grant: m.Claim.Grant, Run: m.Claim.Run})
			answer.Claims, answer.Warnings, answer.Err = others, warnings, ""
			if err != nil {
				answer.Err = err.Error()
			}
		})
		k.claims.mu.Lock()
		s.made = true
		dropped := s.dropped
		k.claims.mu.Unlock()
		_ = l.Send(answer)
		if dropped && k.claims.drop(m.UniID) {
			_ = l.Send(&wire.Message{Op: wire.Withdrawn, UniID: m.UniID})
		}
	})
}

// withdraw ends a claim, or releases the named devices from it.
func (k *keeper) withdraw(l *wire.Link, m *wire.Message) {
	gone := false
	if m.Claim != nil {
		gone = k.claims.give(m.UniID, m.Claim.Grant.UUIDs)
	} else {
		gone = k.claims.drop(m.UniID)
	}
	if gone {
		_ = l.Send(&wire.Message{Op: wire.Withdrawn, UniID: m.UniID})
	}
}

// endClaimsOf ends the claims that depended on a run that is gone, but holds those of live
// processes until these end. If the run was killed before it could name the process of a command,
// the process is found by its uni_id. The uni_id is visible by now, because such a process keeps
// the link open until it executes its program.
func (k *keeper) endClaimsOf(l *wire.Link) {
	for uniID, s := range k.claims.dropRun(l) {
		if s.left {
			k.holdForLeft(uniID)
			continue
		}
		if len(s.trees) == 0 && s.bound == nil { // the run never named its processes
			s.trees = procs.Named(uniID)
		}
		k.holdWhileAlive(uniID, s.trees)
	}
}

// holdWhileAlive holds a claim until these processes are gone. The keeper stays until then.
func (k *keeper) holdWhileAlive(uniID string, ids []procs.ID) {
	k.claims.launched(uniID)
	if !slices.ContainsFunc(ids, procs.Alive) {
		k.claims.drop(uniID)
		return
	}
	k.outlast("holding a claim", func() {
		for slices.ContainsFunc(ids, procs.Alive) && k.claims.has(uniID) {
			time.Sleep(procs.TreeLook)
		}
		k.claims.drop(uniID)
	})
}

// leftLook is how often the processes that a command has left are looked up.
const leftLook = 5 * time.Second

// holdForLeft holds a claim for the processes that a command has left, as long as they use a GPU: an
// ssh-agent must not keep it. The keeper stays until then.
func (k *keeper) holdForLeft(uniID string) {
	k.claims.launched(uniID)
	k.outlast("holding a claim", func() {
		var ids []procs.ID // also of descendants that no longer have the uni_id
		for idle := time.Duration(0); idle < k.limits.OnGPUWithin && k.claims.has(uniID); idle += leftLook {
			if ids = new(procs.Census).Tree(uniID, ids, time.Now()); len(ids) == 0 {
				break
			}
			if usesCUDA(ids) {
				idle = 0
			}
			for range leftLook / procs.TreeLook {
				if slices.ContainsFunc(ids, procs.Alive) {
					time.Sleep(procs.TreeLook)
				}
			}
		}
		k.claims.drop(uniID)
	})
}

// endClaim ends an ended attempt's claim, or keeps it so that the attempt's run can hand the GPUs
// over. If processes survive SIGKILL, the claim lasts until they end.
func (k *keeper) endClaim(uniID string, stuck []int) {
	if len(stuck) == 0 && k.claims.handOver(uniID) {
		return
	}
	var ids []procs.ID
	for _, pid := range stuck {
		if p, ok := procs.One(pid); ok {
			ids = append(ids, p.ID)
		}
	}
	k.holdWhileAlive(uniID, ids)
}
