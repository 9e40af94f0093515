package local

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/engine/local/procs"
)

// A claimRequest asks a keeper to claim for an attempt what it was granted.
type claimRequest struct {
	Job   string     `json:"job"`
	Grant gpu.Grant  `json:"grant"`
	Roots []string   `json:"roots"`           // where claims are; see claim.Roots
	Trees []procs.ID `json:"trees,omitempty"` // the attempt runs already, without a keeper: these are its processes
}

// claims are what a keeper holds of the GPUs. A claim goes with the run that asked
// for it until its attempt is launched; from then on with the attempt's processes;
// and when these are gone it goes with the run again, which hands the GPUs over to
// its next attempt and then withdraws the claim.
type claims struct {
	mu     sync.Mutex
	holder *claim.Holder          // from the first request on
	all    map[string]*claimState // by uni_id
}

// A claimState is one claim: how far it is, and what it goes with.
type claimState struct {
	made, dropped bool
	run           *link         // that asked for it or has adopted its attempt; nil when it is gone
	loose         bool          // it goes with run
	trees         []procs.ID    // its processes, where nobody here waits for them
	bounds        []*time.Timer // of a hand-over
}

const (
	// handOverFor is the longest that a run may take to hand a GPU over; a runner
	// that stands still must not keep it for ever.
	handOverFor = 30 * time.Second
	// handOverShown is how long one takes that is worth telling to others.
	handOverShown = time.Second
)

// keepEvery is how often claims are looked after: for so long a claim may be out of
// sight when somebody takes its file or its folder away.
const keepEvery = 2 * time.Second

// treeLookSlow is how often processes are looked at that may live for days.
const treeLookSlow = time.Second

// open makes the holder, once, and looks after its claims; warn is told what came of
// that.
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

// begin notes a request before anything is done for it, so that whatever ends it
// meanwhile is not lost.
func (c *claims) begin(uniID string, l *link, trees []procs.ID) *claimState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*claimState{}
	}
	s := &claimState{run: l, loose: true, trees: trees}
	c.all[uniID] = s
	return s
}

// drop ends a claim; false when it is still being made, and will be ended then.
func (c *claims) drop(uniID string) bool {
	c.mu.Lock()
	s, h := c.all[uniID], c.holder
	made := s == nil || s.made
	if s != nil {
		s.dropped = true
		for _, t := range s.bounds {
			t.Stop()
		}
	}
	delete(c.all, uniID)
	c.mu.Unlock()
	if s != nil && h != nil {
		h.Release(uniID)
	}
	return made
}

// launched: from now on the claim goes with the attempt.
func (c *claims) launched(uniID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.all[uniID]; s != nil {
		s.loose = false
	}
}

// followed: the run of l has adopted the attempt, and hands its GPUs over.
func (c *claims) followed(uniID string, l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.all[uniID]; s != nil {
		s.run = l
	}
}

// handOver keeps the claim of an attempt that is over for its run, if that is
// there; false when it is not.
func (c *claims) handOver(uniID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, h := c.all[uniID], c.holder
	if s == nil || s.run == nil {
		return false
	}
	s.loose = true
	h.HandOver(uniID)
	s.bounds = []*time.Timer{
		time.AfterFunc(handOverShown, func() { h.TellOver(uniID) }),
		time.AfterFunc(handOverFor, func() { c.drop(uniID) }),
	}
	return true
}

// give ends what a claim holds of these devices; false when it still holds others.
func (c *claims) give(uniID string, ids []gpu.UUID) bool {
	c.mu.Lock()
	h := c.holder
	c.mu.Unlock()
	if h != nil && h.Give(uniID, ids) {
		return false
	}
	return c.drop(uniID)
}

// has says whether a claim is held or being made.
func (c *claims) has(uniID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[uniID] != nil
}

// A leftClaim is one whose run is gone.
type leftClaim struct {
	trees []procs.ID // that it may be for
	fresh bool       // nobody has ever said what it is for
}

// left: the run of l is gone. Lists the claims that went with it.
func (c *claims) left(l *link) map[string]leftClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]leftClaim{}
	for uniID, s := range c.all {
		if s.run != l {
			continue
		}
		s.run = nil
		if s.loose {
			found[uniID] = leftClaim{s.trees, len(s.trees) == 0 && len(s.bounds) == 0}
		}
	}
	return found
}

// warn tells every runner, and whoever looks into keeper.log.
func (k *keeper) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(os.Stderr, w)
	}
	k.tell(&message{Op: opWarn, Warnings: warnings})
}

// claim makes a claim and answers, beside everything else that the keeper does.
func (k *keeper) claim(l *link, m *message) {
	if m.Claim == nil {
		return
	}
	s := k.claims.begin(m.UniID, l, m.Claim.Trees)
	go func() {
		answer := &message{Op: opClaimed, UniID: m.UniID}
		h := k.claims.open(m.Claim.Roots, k.warn)
		answer.Err = "the keeper failed at it, see keeper.log"
		contained("the claim of "+m.UniID, func() {
			others, warnings, err := h.Claim(context.Background(), m.UniID, m.Claim.Job, m.Claim.Grant)
			answer.Claims, answer.Warnings, answer.Err = others, warnings, ""
			if err != nil {
				answer.Err = err.Error()
			}
		})
		k.claims.mu.Lock()
		s.made = true
		dropped := s.dropped
		k.claims.mu.Unlock()
		_ = l.send(answer)
		if dropped {
			h.Release(m.UniID)
			_ = l.send(&message{Op: opWithdrawn, UniID: m.UniID})
		}
	}()
}

// stands: the process that asked for a claim runs these itself. Should it be gone
// before them, they keep the claim.
func (c *claims) stands(uniID string, trees []procs.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.all[uniID]; s != nil {
		s.trees = trees
	}
}

// withdraw ends a claim, or what it holds of the devices that are named.
func (k *keeper) withdraw(l *link, m *message) {
	gone := false
	if m.Claim != nil {
		gone = k.claims.give(m.UniID, m.Claim.Grant.UUIDs)
	} else {
		gone = k.claims.drop(m.UniID)
	}
	if gone {
		_ = l.send(&message{Op: opWithdrawn, UniID: m.UniID})
	}
}

// unlinked ends the claims that went with a run that is gone. Those for processes
// that live are held for as long; also for one that was killed when it had started
// its command and not yet said so. The link was the command's as well until it had
// become a program: it can be found.
func (k *keeper) unlinked(l *link) {
	for uniID, c := range k.claims.left(l) {
		if c.fresh {
			c.trees = procs.Named(uniID)
		}
		k.outlast(uniID, c.trees)
	}
}

// outlast holds a claim until these processes are gone, and the keeper stays for
// as long.
func (k *keeper) outlast(uniID string, ids []procs.ID) {
	if !k.claims.has(uniID) {
		return
	}
	k.claims.launched(uniID)
	if !anyAlive(ids) {
		k.claims.drop(uniID)
		return
	}
	k.mu.Lock()
	k.outlasts++
	k.mu.Unlock()
	go func() {
		for anyAlive(ids) && k.claims.has(uniID) {
			time.Sleep(treeLookSlow)
		}
		k.claims.drop(uniID)
		k.mu.Lock()
		k.outlasts--
		k.mu.Unlock()
		k.checkQuiet()
	}()
}

// overFor ends the claim of an attempt that is over, or keeps it for its run to
// hand over. What not even SIGKILL has ended keeps it.
func (k *keeper) overFor(uniID string, stuck []int) {
	if len(stuck) == 0 && k.claims.handOver(uniID) {
		return
	}
	var ids []procs.ID
	for _, pid := range stuck {
		if p, ok := procs.One(pid); ok {
			ids = append(ids, p.ID)
		}
	}
	k.outlast(uniID, ids)
}

func anyAlive(ids []procs.ID) bool {
	for _, id := range ids {
		if procs.Alive(id) {
			return true
		}
	}
	return false
}
