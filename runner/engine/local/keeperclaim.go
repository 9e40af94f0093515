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

// claims are what a keeper holds of the GPUs. A claim goes with the connection
// that asked for it until its attempt is launched; from then on with the
// attempt's processes.
type claims struct {
	mu     sync.Mutex
	holder *claim.Holder          // from the first request on
	askers map[string]*link       // of claims that are not launched yet, by uni_id
	trees  map[string][]procs.ID  // of claims whose processes nobody here waits for
	asked  map[string]*claimState // all of them
}

// A claimState is how far a claim is.
type claimState struct{ made, dropped bool }

// renewEvery is how often claims are touched and looked after.
const renewEvery = time.Hour

// treeLookSlow is how often processes are looked at that may live for days.
const treeLookSlow = time.Second

// open makes the holder, once.
func (c *claims) open(roots []string) *claim.Holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder == nil {
		c.holder = claim.Open(roots)
		go func() {
			for range time.Tick(renewEvery) {
				for _, w := range c.holder.Keep() {
					fmt.Fprintln(os.Stderr, w)
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
	if c.asked == nil {
		c.asked, c.askers, c.trees = map[string]*claimState{}, map[string]*link{}, map[string][]procs.ID{}
	}
	s := &claimState{}
	c.asked[uniID], c.askers[uniID] = s, l
	if len(trees) > 0 {
		c.trees[uniID] = trees
	}
	return s
}

// drop ends a claim; false when it is still being made, and will be ended then.
func (c *claims) drop(uniID string) bool {
	c.mu.Lock()
	s, h := c.asked[uniID], c.holder
	made := s == nil || s.made
	if s != nil {
		s.dropped = true
	}
	delete(c.asked, uniID)
	delete(c.askers, uniID)
	delete(c.trees, uniID)
	c.mu.Unlock()
	if s != nil && h != nil {
		h.Release(uniID)
	}
	return made
}

// launched: from now on the claim goes with the attempt.
func (c *claims) launched(uniID string) {
	c.mu.Lock()
	delete(c.askers, uniID)
	c.mu.Unlock()
}

// has says whether a claim is held or being made.
func (c *claims) has(uniID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[uniID] != nil
}

// of lists the claims that l asked for and has not launched, with the processes
// that they may be for.
func (c *claims) of(l *link) map[string][]procs.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string][]procs.ID{}
	for uniID, asker := range c.askers {
		if asker == l {
			found[uniID] = c.trees[uniID]
		}
	}
	return found
}

// claim makes a claim and answers, beside everything else that the keeper does.
func (k *keeper) claim(l *link, m *message) {
	if m.Claim == nil {
		return
	}
	s := k.claims.begin(m.UniID, l, m.Claim.Trees)
	go func() {
		answer := &message{Op: opClaimed, UniID: m.UniID}
		h := k.claims.open(m.Claim.Roots)
		others, warnings, err := h.Claim(context.Background(), m.UniID, m.Claim.Job, m.Claim.Grant)
		answer.Claims, answer.Warnings = others, warnings
		if err != nil {
			answer.Err = err.Error()
		}
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

// unlinked ends the claims of a connection that is gone and has not launched
// them. Those for processes that live are held for as long.
func (k *keeper) unlinked(l *link) {
	for uniID, trees := range k.claims.of(l) {
		k.outlast(uniID, trees)
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

// overFor ends the claim of an attempt that is over. What not even SIGKILL has
// ended keeps it.
func (k *keeper) overFor(uniID string, stuck []int) {
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
