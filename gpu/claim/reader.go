package claim

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpurun/gpu"
)

// ReadLimit bounds the time for reading all users' claims. Folders not read by then are skipped, with
// a warning; see doubt. It is a variable because tests on a busy machine need more time.
var ReadLimit = time.Second

const readTick = 10 * time.Millisecond

// limited cancels ctx once this process has run for ReadLimit. Time during which it was stopped
// does not count, because other users' folders did not cause that.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	tick, ticks := time.NewTicker(readTick), ReadLimit/readTick
	go func() {
		defer tick.Stop()
		for range ticks {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// A Reader reads the claims of all users on the host. It is safe for concurrent use.
type Reader struct {
	roots []string
	outer string // the attempt that this process is part of, or ""

	entered func(path string) // hook for tests to delay reading a folder; nil otherwise

	mu     sync.Mutex
	warned map[string]bool
	last   reading
	set    string            // the set of devices whose use is read; "" for none
	devs   []gpu.Device      // devices of the host; empty if unknown
	doubts map[string]*doubt // by folder
}

// A reading holds what a Reader found in addition to claims.
type reading struct {
	began  time.Time
	took   time.Duration
	sick   []gpu.Quarantine
	wishes []gpu.Wish
	usages []Usage
}

// NewReader returns a reader of the claims below roots; see Roots. A gpurun inside a job of another
// gpurun may use that job's devices, so the reader ignores that job's claim.
func NewReader(roots []string) *Reader {
	return &Reader{roots: roots, outer: os.Getenv(AttemptVariable), warned: map[string]bool{}, doubts: map[string]*doubt{}}
}

// Others returns the claims of all other processes on the host, and warnings about what it ignored,
// each only once. It takes at most a second. The list is never nil.
func (r *Reader) Others(ctx context.Context) ([]gpu.Claim, []string) {
	claims, warnings, _ := r.look(ctx)
	return claims, warnings
}

// look is like Others, but also reports doubt: whether anything that may contain claims could not
// be read completely. If so, nothing may start.
func (r *Reader) look(ctx context.Context) ([]gpu.Claim, []string, bool) {
	ctx, cancel := limited(ctx)
	defer cancel()
	began := time.Now()
	var s view
	seen := map[string]bool{}
	for _, root := range r.roots {
		abs, err := filepath.EvalSymlinks(root)
		if err != nil {
			abs = root
		}
		if !seen[abs] {
			seen[abs] = true
			r.root(ctx, abs, &s)
		}
	}
	claims, known := []gpu.Claim{}, func(id gpu.UUID) bool {
		return len(r.devs) == 0 || id == gpu.Every || id.Simulated() || slices.ContainsFunc(r.devs, func(d gpu.Device) bool { return d.UUID == id || d.Silent })
	}
	for _, c := range s.found {
		if !c.mine() && (c.UniID != r.outer || r.outer == "") {
			claims = append(claims, c.claims(login(c.UID))...)
		}
	}
	for _, c := range claims {
		if !known(c.UUID) { // the warning has no text chosen by c's user
			s.warn("ignoring a claim by %s on GPUs that this host does not have", c.User)
		}
	}
	slices.SortStableFunc(claims, func(a, b gpu.Claim) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), a.Since.Compare(b.Since), cmp.Compare(a.Attempt, b.Attempt))
	})
	slices.SortFunc(s.quarantines, func(a, b gpu.Quarantine) int { return cmp.Or(cmp.Compare(a.UUID, b.UUID), a.UID-b.UID) })
	slices.SortFunc(s.usages, func(a, b Usage) int { return cmp.Or(a.UID-b.UID, b.At.Compare(a.At)) })
	s.usages = slices.CompactFunc(s.usages, func(a, b Usage) bool { return a.UID == b.UID })
	r.mu.Lock()
	if !began.Before(r.last.began) { // otherwise, a later reading finished first
		r.last = reading{began, time.Since(began), s.quarantines, wishes(s.wishes), s.usages}
	}
	r.mu.Unlock()
	return claims, r.news(s.warnings), s.doubt
}

// Of makes readings include recorded use of these devices, and warn about claims on devices that
// the host does not have.
func (r *Reader) Of(devs []gpu.Device) *Reader {
	r.set, r.devs = Set(devs), devs
	return r
}

func (r *Reader) latest() reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Wishes returns the wishes of all other processes on the host, as of the last reading by Others.
func (r *Reader) Wishes() []gpu.Wish { return r.latest().wishes }

// maxWarned bounds how many warnings a reader remembers.
const maxWarned = 1000

// news returns the warnings that have not been reported yet.
func (r *Reader) news(warnings []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fresh []string
	for _, w := range warnings {
		if !r.warned[w] && len(r.warned) < maxWarned {
			r.warned[w] = true
			fresh = append(fresh, w)
		}
	}
	return fresh
}

// root reads all users' folders below one root in parallel, because a file system may not respond.
func (r *Reader) root(ctx context.Context, root string, s *view) {
	type answer struct {
		folder
		view
	}
	folders := s.folders(ctx, root)
	answers := make(chan answer, len(folders))
	waiting := map[string]folder{}
	for _, f := range folders {
		if r.hung(f.path, 0) { // another reading would block another thread
			r.silent(f, s)
			continue
		}
		waiting[f.path] = f
		go func() {
			a := answer{folder: f}
			a.set = r.set
			a.safely(f, func() {
				if r.entered != nil {
					r.entered(f.path)
				}
				a.read(ctx, f)
			})
			answers <- a
		}()
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			delete(waiting, a.path)
			r.judge(a.folder, s, &a.view)
		case <-ctx.Done():
			for path, f := range waiting {
				r.hung(path, 1)
				r.silent(f, s)
			}
			go func() {
				for range len(waiting) {
					r.hung((<-answers).path, -1)
				}
			}()
			return
		}
	}
}
