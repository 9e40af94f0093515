package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A Holder creates claims and holds them until they are released, this process ends, or the Holder
// is garbage collected. It is safe for concurrent use.
type Holder struct {
	*Reader
	published func() // hook for tests, called with the lock held; nil otherwise

	turn    sync.Mutex // one claim at a time
	waited  bool       // guarded by turn: it has waited rivalWait for rivals once
	touched time.Time  // guarded by turn

	mu   sync.Mutex
	held map[string]*held // by uni_id
}

// NewHolder returns a holder for claims below the first usable root.
func NewHolder(roots []string) *Holder {
	return &Holder{Reader: NewReader(roots), held: map[string]*held{}}
}

// Open is like NewHolder, but first removes claims left by this user's dead holders.
func Open(roots []string) *Holder {
	h := NewHolder(roots)
	for _, f := range mine(roots...) {
		sweep(f)
	}
	return h
}

// Claim publishes a claim, then reads all others, so that the caller can decide whether to keep or
// release it. It returns an error, and holds nothing, if it cannot publish the claim or cannot read
// what others hold.
func (h *Holder) Claim(ctx context.Context, s Subject) ([]gpu.Claim, []string, error) {
	from := h.handedOver(s.Grant)
	others, warnings, err := h.claim(ctx, s, len(from) > 0 && len(from) == len(s.Grant.UUIDs))
	if err == nil && len(from) > 0 {
		others = h.settle(ctx, others, from)
	}
	return others, warnings, err
}

// claim is like Claim, but without the rules of a hand-over. If sure is set, any other run that
// claims the same devices now must withdraw, so there is no need to lock rivals out.
func (h *Holder) claim(ctx context.Context, s Subject, sure bool) ([]gpu.Claim, []string, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
	if !sure {
		defer h.keepOut(ctx)()
	}
	mended := h.restore()
	warnings, err := h.publish(newContent(s), nil)
	news := h.news(append(mended, warnings...))
	if err != nil {
		return nil, news, err
	}
	if h.published != nil {
		h.published()
	}
	others, more, doubt := h.look(ctx)
	news = append(news, more...)
	if doubt && sure { // there is time for another reading
		others, more, doubt = h.look(ctx)
		news = append(news, more...)
	}
	if doubt || ctx.Err() != nil {
		h.Release(s.UniID)
		return nil, news, errDoubt
	}
	return others, news, nil
}

var errDoubt = errors.New("cannot read all claims of other users")

// Again publishes a claim for a running attempt, regardless of other runs' claims.
func (h *Holder) Again(s Subject) ([]string, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
	warnings, err := h.publish(newContent(s), nil)
	return h.news(warnings), err
}

// publish makes a claim visible to others, in the first root that accepts it. It replaces old if
// that is not nil and still held.
func (h *Holder) publish(c *content, old *held) (warnings []string, err error) {
	k, refused, err := create(h.roots, cut(c.UniID), suffix, c)
	for i, why := range refused {
		if i+1 < len(h.roots) {
			warnings = append(warnings, fmt.Sprintf("claims: %v; using %s instead, where other users cannot see what this run holds", why, h.roots[i+1]))
		}
	}
	if err != nil {
		return warnings, fmt.Errorf("cannot claim GPUs: %w", err)
	}
	k.content = c
	h.exchange(k, old)
	return warnings, nil
}

// exchange holds k in place of old, or ends k if old was released in the meantime.
func (h *Holder) exchange(k, old *held) {
	h.mu.Lock()
	out := h.held[k.content.UniID]
	switch {
	case old == nil:
		h.held[k.content.UniID] = k
	case old == out:
		k.over = old.over
		h.held[k.content.UniID] = k
	default:
		out = k
	}
	h.mu.Unlock()
	out.end()
}

// Release ends a claim. It does nothing if the claim is not held.
func (h *Holder) Release(uniID string) {
	h.mu.Lock()
	k := h.held[uniID]
	delete(h.held, uniID)
	h.mu.Unlock()
	k.end()
}

// Close ends all claims.
func (h *Holder) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.held {
		k.end()
	}
	h.held = map[string]*held{}
}

// touchEvery is how often claims are touched, so that systems do not delete them when cleaning up
// /var/tmp by age.
const touchEvery = time.Hour

// Keep maintains the claims. It republishes claims whose files were removed, marks claims that are
// being handed over, and touches all claims from time to time. Call it every few seconds; it costs
// two system calls per claim.
func (h *Holder) Keep() []string {
	h.turn.Lock()
	defer h.turn.Unlock()
	warnings := h.restore()
	now := time.Now()
	touch := now.Sub(h.touched) >= touchEvery
	if touch {
		h.touched = now
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.held {
		if touch {
			k.touch(now)
		}
		if k.over {
			k.offer(cmp.Or(k.content.Run, k.content.UniID), func(d contentDevice) bool { return d.To == "" })
		}
	}
	return h.news(warnings)
}

// restore republishes every claim whose file was removed.
func (h *Holder) restore() []string {
	gone := map[*held]*content{}
	h.mu.Lock()
	for _, k := range h.held {
		if !k.linked() {
			gone[k] = k.content
		}
	}
	h.mu.Unlock()
	var warnings []string
	for k, c := range gone {
		w, err := h.publish(c, k)
		warnings = append(warnings, w...)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("claims: the claim of %s was removed, and restoring it failed: %v", c.Job, err))
		}
	}
	return warnings
}

// A lock on the root prevents runs that claim at the same time from seeing each other and both
// withdrawing. It is only an optimization.
const (
	rivalWait = 2 * time.Second // once a claim has waited this long, later claims do not wait
	rivalLook = time.Millisecond
)

// keepOut locks rivals out if it can do so in time. It returns a function that lets them in again.
func (h *Holder) keepOut(ctx context.Context) (release func()) {
	fd, err := unix.Open(h.roots[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	for began := time.Now(); ; time.Sleep(rivalLook) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || err != unix.EINTR && err != unix.EWOULDBLOCK || h.waited || ctx.Err() != nil {
			break
		}
		h.waited = time.Since(began) > rivalWait
	}
	return func() { unix.Close(fd) }
}
