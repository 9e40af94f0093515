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

// A Holder makes claims and holds them. They end with Release, or with this
// process. Several goroutines may use it.
type Holder struct {
	*Reader
	turn sync.Mutex // one claim at a time
	lock rivalLock  // with turn

	touched time.Time // with turn

	published func() // tests stop here, under the lock; nil

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

// NewHolder makes a holder for claims below the first of roots that can be used.
func NewHolder(roots []string) *Holder {
	return &Holder{Reader: NewReader(roots), held: map[string]*held{}}
}

// Open is NewHolder, and removes what holders of this user that died have left.
func Open(roots []string) *Holder {
	h := NewHolder(roots)
	for _, root := range roots {
		sweep(root)
	}
	return h
}

// Claim publishes a claim, then reads what all others hold: the claim is the
// caller's to keep or to release by what it sees. After an error nothing is held:
// it could not be published, or what others hold could not be found out.
func (h *Holder) Claim(ctx context.Context, uniID, job string, g gpu.Grant) ([]gpu.Claim, []string, error) {
	from := h.handedOver(g)
	others, warnings, err := h.claim(ctx, uniID, job, g, len(from) > 0 && len(from) == len(g.UUIDs))
	if err == nil && len(from) > 0 {
		others = h.settle(ctx, others, from)
	}
	return others, warnings, err
}

// claim is Claim without what a hand-over needs. Sure: whoever claims the same
// now will have to withdraw, and is not to be kept away for it.
func (h *Holder) claim(ctx context.Context, uniID, job string, g gpu.Grant, sure bool) ([]gpu.Claim, []string, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
	if !sure {
		unlock := h.lock.take(ctx, h.roots[0])
		defer unlock()
	}
	mended := h.mend()
	warnings, err := h.publish(newContent(uniID, job, h.names.of(os.Getuid()), g, time.Now()), nil)
	if err != nil {
		return nil, h.news(append(mended, warnings...)), err
	}
	if h.published != nil {
		h.published()
	}
	others, news, doubt := h.look(ctx)
	if doubt && sure { // there is time for another look
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

var errDoubt = errors.New("the claims of others could not be read to their end")

// Again publishes a claim for what runs already, whatever others hold by now.
func (h *Holder) Again(uniID, job string, g gpu.Grant) ([]string, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
	warnings, err := h.publish(newContent(uniID, job, h.names.of(os.Getuid()), g, time.Now()), nil)
	return h.news(warnings), err
}

// publish puts a claim where others see it, in the first root that takes it; in
// place of old, where that is not nil and still held.
func (h *Holder) publish(c *content, old *held) (warnings []string, err error) {
	for i, root := range h.roots {
		var k *held
		if k, err = create(root, i > 0, c); err == nil {
			h.exchange(k, old)
			return warnings, nil
		}
		if i+1 < len(h.roots) {
			warnings = append(warnings, fmt.Sprintf("claims: %v; other users do not see what this run holds, claims go to %s", err, h.roots[i+1]))
		}
	}
	if err == nil {
		err = errors.New("there is no folder for claims")
	}
	return warnings, fmt.Errorf("cannot claim GPUs: %w", err)
}

// exchange holds k in place of old; without it where old has been released since.
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

// Release ends a claim. One that is not held is no error.
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

// end takes the file away before it lets go of the lock.
func (k *held) end() {
	if k == nil {
		return
	}
	if k.linked() {
		_ = os.Remove(k.path)
	}
	k.file.Close()
}

// linked says that the claim's file is where it was made.
func (k *held) linked() bool {
	var st, at unix.Stat_t
	return unix.Fstat(int(k.file.Fd()), &st) == nil && unix.Lstat(k.path, &at) == nil && st.Ino == at.Ino && st.Dev == at.Dev
}

// touchEvery is how often claims are touched: /var/tmp is cleaned by age.
const touchEvery = time.Hour

// Keep looks after the claims: it publishes again what has been taken away, since
// until then nobody sees it, and now and then touches them all. Every few seconds is
// right; it costs two system calls for each claim.
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

// mend publishes again every claim whose file somebody has taken away.
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
			warnings = append(warnings, fmt.Sprintf("claims: the claim of %s was taken away: %v", c.Job, err))
		}
	}
	return warnings
}

// maxNamesTried bounds the names that one claim is tried under.
const maxNamesTried = 20

// create makes a claim's file below root and locks it. Until it is locked nobody
// else can open it, so that nobody else can hold it up.
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
	return nil, fmt.Errorf("%s is full of claims of %s", dir.Name(), c.UniID)
}

// createAt makes one file; EEXIST when its name cannot be had.
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

// lockNew locks a file that was just made. Another process of this user may look
// at it for a moment, or may have taken it for what a dead one left.
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

// fileName is the n-th name that a claim is tried under.
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
