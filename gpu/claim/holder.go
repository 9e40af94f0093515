package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A Holder makes claims and holds them until Release or the end of this process. It
// is safe for concurrent use.
type Holder struct {
	*Reader
	turn sync.Mutex // one claim at a time
	lock rivalLock  // with turn

	touched time.Time // with turn

	published func() // hook for tests, called under the lock; nil otherwise

	mu   sync.Mutex
	held map[string]*held // by uni_id
}

// held is a claim that this process holds.
type held struct {
	content *content
	path    string
	file    *os.File // with the lock; closed on exec
	size    int      // of the file
	over    bool     // its attempt has ended, see HandOver
}

// NewHolder returns a holder for claims below the first usable root.
func NewHolder(roots []string) *Holder {
	return &Holder{Reader: NewReader(roots), held: map[string]*held{}}
}

// Open is NewHolder, but first removes claims left by dead holders of this user.
func Open(roots []string) *Holder {
	h := NewHolder(roots)
	for _, root := range roots {
		sweep(root)
	}
	return h
}

// Claim publishes a claim, then reads what all others hold, for the caller to decide
// whether to keep or release the claim. It returns an error, holding nothing, if it
// cannot publish the claim or cannot find out what others hold.
func (h *Holder) Claim(ctx context.Context, uniID, job string, g gpu.Grant) ([]gpu.Claim, []string, error) {
	from := h.handedOver(g)
	others, warnings, err := h.claim(ctx, uniID, job, g, len(from) > 0 && len(from) == len(g.UUIDs))
	if err == nil && len(from) > 0 {
		others = h.settle(ctx, others, from)
	}
	return others, warnings, err
}

// claim is Claim without the rules of a hand-over. If sure, anyone else who claims
// the same now must withdraw, so there is no need to lock them out.
func (h *Holder) claim(ctx context.Context, uniID, job string, g gpu.Grant, sure bool) ([]gpu.Claim, []string, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
	if !sure {
		unlock := h.lock.take(ctx, h.roots[0])
		defer unlock()
	}
	mended := h.mend()
	warnings, err := h.publish(newContent(uniID, job, login(os.Getuid()), g, time.Now()), nil)
	if err != nil {
		return nil, h.news(append(mended, warnings...)), err
	}
	if h.published != nil {
		h.published()
	}
	others, news, doubt := h.look(ctx)
	if doubt && sure { // there is time for a second look
		var more []string
		others, more, doubt = h.look(ctx)
		news = append(news, more...)
	}
	news = append(h.news(append(mended, warnings...)), news...)
	if doubt || ctx.Err() != nil {
		h.Release(uniID)
		return nil, news, errDoubt
	}
	return others, news, nil
}

var errDoubt = errors.New("could not read all claims of others")

// Again publishes a claim for what is already running, whatever others hold now.
func (h *Holder) Again(uniID, job string, g gpu.Grant) ([]string, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
	warnings, err := h.publish(newContent(uniID, job, login(os.Getuid()), g, time.Now()), nil)
	return h.news(warnings), err
}

// publish puts a claim where others see it, in the first root that accepts it. It
// replaces old if that is not nil and still held.
func (h *Holder) publish(c *content, old *held) (warnings []string, err error) {
	for i, root := range h.roots {
		var k *held
		if k, err = create(root, i > 0, c); err == nil {
			h.exchange(k, old)
			return warnings, nil
		}
		if i+1 < len(h.roots) {
			warnings = append(warnings, fmt.Sprintf("claims: %v; using %s instead, where other users cannot see what this run holds", err, h.roots[i+1]))
		}
	}
	if err == nil {
		err = errors.New("there is no folder for claims")
	}
	return warnings, fmt.Errorf("cannot claim GPUs: %w", err)
}

// exchange holds k instead of old, or ends k if old has been released since.
func (h *Holder) exchange(k, old *held) {
	h.mu.Lock()
	now := h.held[k.content.UniID]
	gone := old != nil && now != old
	if !gone {
		h.held[k.content.UniID] = k
	}
	if old != nil {
		k.over = old.over
	}
	h.mu.Unlock()
	if gone {
		k.end()
	} else {
		now.end()
	}
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

// end removes the file before it releases the lock.
func (k *held) end() {
	if k == nil {
		return
	}
	if k.linked() {
		_ = os.Remove(k.path)
	}
	k.file.Close()
}

// linked reports whether the claim's file is still where it was created.
func (k *held) linked() bool {
	var st, at unix.Stat_t
	return unix.Fstat(int(k.file.Fd()), &st) == nil && unix.Lstat(k.path, &at) == nil && st.Ino == at.Ino && st.Dev == at.Dev
}

// touchEvery is how often claims are touched: systems clean /var/tmp by age.
const touchEvery = time.Hour

// Keep maintains the claims: it republishes those whose files were removed, which
// nobody can see until then, and now and then touches them all. Call it every few
// seconds; it costs two system calls per claim.
func (h *Holder) Keep() []string {
	h.turn.Lock()
	defer h.turn.Unlock()
	if now := time.Now(); now.Sub(h.touched) >= touchEvery {
		h.touched = now
		h.touch(now)
	}
	return h.news(h.mend())
}

func (h *Holder) touch(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	times := []unix.Timeval{unix.NsecToTimeval(now.UnixNano()), unix.NsecToTimeval(now.UnixNano())}
	for _, k := range h.held {
		_ = unix.Futimes(int(k.file.Fd()), times)
		_ = unix.Utimes(filepath.Dir(k.path), times)
	}
}

// mend republishes every claim whose file somebody removed.
func (h *Holder) mend() []string {
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
			warnings = append(warnings, fmt.Sprintf("claims: the claim of %s was removed and cannot be published again: %v", c.Job, err))
		}
	}
	return warnings
}

// maxNamesTried bounds the file names tried for one claim.
const maxNamesTried = 20

// create makes a claim's file below root and locks it. Until it is locked no other
// user can open it, so none can delay it.
func create(root string, private bool, c *content) (*held, error) {
	dir, err := ownFolder(root, private)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	body, err := c.encode(0)
	if err != nil {
		return nil, err
	}
	for n := range maxNamesTried {
		name := fileName(c.UniID, n)
		f, err := createAt(dir, name, body)
		if err == nil {
			return &held{content: c, path: filepath.Join(dir.Name(), name), file: f, size: len(body)}, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("%s cannot be written: %w", filepath.Join(dir.Name(), name), err)
		}
	}
	return nil, fmt.Errorf("%s has too many claims of %s", dir.Name(), c.UniID)
}

// createAt makes one file. It returns EEXIST if its name is taken.
func createAt(dir *os.File, name string, body []byte) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err = lockNew(fd); err == nil {
		_, err = f.WriteAt(body, 0)
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err != nil {
		_ = unix.Unlinkat(int(dir.Fd()), name, 0)
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockNew locks a file that was just created. Another process of this user may be
// reading it, or may have mistaken it for a dead holder's claim and removed it.
func lockNew(fd int) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		if time.Since(began) > 200*time.Millisecond {
			return unix.EEXIST
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		return unix.EEXIST
	}
	return nil
}

// fileName returns the n-th file name to try for a claim.
func fileName(uniID string, n int) string {
	base := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, cut(uniID))
	if n > 0 {
		base += "." + strconv.Itoa(n)
	}
	return base + suffix
}
