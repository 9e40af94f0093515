package claim

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A Watch defines which changes by other processes are reported to a run immediately. All other
// changes are reported within a second.
type Watch struct {
	Run    string                  // ID of this run; its wish is ignored
	Own    func(uniID string) bool // whether a claim is this run's; such claims are ignored
	Urgent func(c gpu.Claim) bool
	Tell   func() // called when something has changed and must be read again
}

// These are the relevant events: a file is written or removed, or its holder has ended, in which
// case the kernel closes the file. Reading a file is not an event.
const (
	inFolder = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	inRoot   = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
)

// Changes that are not urgent are reported at these intervals. Wishes are reported sooner, because
// a run that releases a device chooses who gets it. Claims are reported only as often as a reading
// of all claims is affordable.
const (
	wishEvery  = 100 * time.Millisecond
	claimEvery = time.Second
)

// maxWatched bounds the number of watched folders. The kernel allows each user 8192 or more.
const maxWatched = 1024

// These limit how much work one user can cause for all other users.
const (
	mostEvents = 1000 // in a user's folder per second; beyond that, the folder is ignored for the rest of the second
	mostLooks  = 200  // readings of changed files in it per second
	mostOwn    = 1024 // own claims to remember
	costRatio  = 20   // a report leads to a reading of all claims, which may take a twentieth of the time,
	urgentMost = 4    // or a quarter if it is urgent
)

// Watch reports changes until ctx is done. If the kernel does not let this user watch more folders,
// it reports at fixed intervals of claimEvery.
func (r *Reader) Watch(ctx context.Context, w Watch) {
	t := newWatcher(w)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		r.poll(ctx, w)
		return
	}
	f := os.NewFile(uintptr(fd), "inotify")
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	defer f.Close()
	t.fd = fd
	for _, root := range r.roots {
		t.addRoot(root)
	}
	buf := make([]byte, 64<<10)
	var last time.Time
	for second := time.Now(); ; {
		_ = f.SetReadDeadline(t.next(last, second, r.latest().took))
		n, err := f.Read(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			if ctx.Err() == nil {
				r.poll(ctx, w)
			}
			return
		}
		t.handle(buf[:max(n, 0)])
		now := time.Now()
		if now.Sub(second) >= time.Second {
			second = now
			t.nextSecond()
		}
		if due := t.nextReport(last, r.latest().took); !due.IsZero() && !now.Before(due) {
			last, t.pause, t.urgent = now, 0, false
			if t.blind {
				t.due(claimEvery)
			}
			t.addFolders()
			w.Tell()
		}
	}
}

func (r *Reader) poll(ctx context.Context, w Watch) {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.Tell()
		case <-ctx.Done():
			return
		}
	}
}

// A watcher is a running Watch.
type watcher struct {
	watch   Watch
	fd      int
	roots   map[int32]string // by watch descriptor
	folders map[int32]folder
	pause   time.Duration // from the last report until the next one is due; 0 if none is
	urgent  bool          // report immediately
	blind   bool          // not everything can be watched

	paces map[string]eventCount // by folder
	own   map[string]bool       // names of claims that were this run's; their end is ignored, too
}

func newWatcher(w Watch) *watcher {
	return &watcher{watch: w, roots: map[int32]string{}, folders: map[int32]folder{}, paces: map[string]eventCount{}, own: map[string]bool{}}
}

// An eventCount counts the events in a folder in the current second.
type eventCount struct {
	events, looks int
	muted         bool
}

// nextReport returns when the next report is due, if a reading takes cost.
func (t *watcher) nextReport(last time.Time, cost time.Duration) time.Time {
	switch {
	case t.urgent:
		return last.Add(urgentMost * cost)
	case t.pause > 0:
		return last.Add(max(t.pause, costRatio*cost))
	}
	return time.Time{}
}

// next returns when to stop waiting for events; zero for never.
func (t *watcher) next(last, second time.Time, cost time.Duration) time.Time {
	due := t.nextReport(last, cost)
	for _, p := range t.paces {
		if again := second.Add(time.Second); p.muted && (due.IsZero() || again.Before(due)) {
			due = again
		}
	}
	return due
}

func (t *watcher) nextSecond() {
	paces := t.paces
	t.paces = map[string]eventCount{}
	for _, p := range paces {
		if p.muted {
			t.addFolders()
			t.due(claimEvery)
		}
	}
}

// addRoot watches a root. If this fails for a reason other than the kernel's limit, no other user
// can publish anything there either.
func (t *watcher) addRoot(root string) {
	wd, err := unix.InotifyAddWatch(t.fd, root, inRoot)
	if err != nil {
		t.noteLimit(err)
		return
	}
	t.roots[int32(wd)] = root
	t.addFolders()
}

// addFolders watches the users' folders. Folders that cannot be watched are polled.
func (t *watcher) addFolders() {
	for _, root := range t.roots {
		for _, f := range (&view{}).folders(context.Background(), root) {
			if len(t.folders) >= maxWatched || t.paces[f.path].muted {
				continue
			}
			wd, err := unix.InotifyAddWatch(t.fd, f.path, inFolder)
			if err != nil {
				t.noteLimit(err)
				continue
			}
			t.folders[int32(wd)] = f
		}
	}
}

// noteLimit records err if it means that the kernel does not let this user watch more folders.
func (t *watcher) noteLimit(err error) {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
		t.blind = true
		t.due(claimEvery)
	}
}

func (t *watcher) handle(buf []byte) {
	type file struct {
		folder
		name string
	}
	changed := map[file]bool{} // the end of one job causes several events for one file
	for len(buf) >= unix.SizeofInotifyEvent {
		ev := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		rest := buf[unix.SizeofInotifyEvent:]
		name := strings.TrimRight(string(rest[:ev.Len]), "\x00")
		buf = rest[ev.Len:]
		switch root, folder := t.roots[ev.Wd], t.folders[ev.Wd]; {
		case ev.Mask&unix.IN_Q_OVERFLOW != 0:
			t.due(claimEvery)
		case ev.Mask&unix.IN_IGNORED != 0:
			delete(t.folders, ev.Wd)
			delete(t.roots, ev.Wd)
		case root != "":
			if _, ok := folderOf(name); ok {
				t.due(wishEvery) // addFolders then watches the new folder
			}
		case folder.path != "":
			changed[file{folder, name}] = true
			t.countEvent(ev.Wd, folder.path)
		}
	}
	for f := range changed {
		t.file(f.folder, f.name)
	}
}

// countEvent counts an event in a folder. A folder with too many events is not watched for the rest of
// the second, because it would delay the events of other folders.
func (t *watcher) countEvent(wd int32, path string) {
	p := t.paces[path]
	if p.events++; p.events > mostEvents && !p.muted {
		p.muted = true
		_, _ = unix.InotifyRmWatch(t.fd, uint32(wd))
		delete(t.folders, wd)
		t.due(claimEvery)
	}
	t.paces[path] = p
}

func (t *watcher) file(f folder, name string) {
	uniID, isClaim := strings.CutSuffix(name, suffix)
	if isClaim && t.owns(uniID) || !isClaim && (!strings.HasSuffix(name, wishSuffix) || name == fileName(t.watch.Run, 0)+wishSuffix) {
		return
	}
	if !isClaim {
		t.due(wishEvery)
		return
	}
	t.due(claimEvery)
	p := t.paces[f.path]
	if p.looks++; p.looks > mostLooks {
		return
	}
	t.paces[f.path] = p
	d, err := openFolder(f)
	if err != nil {
		return
	}
	defer d.Close()
	c, _, err := open(d, name, f.uid, parse)
	if err != nil {
		return
	}
	for _, on := range c.claims("") {
		t.urgent = t.urgent || t.watch.Urgent(on)
	}
}

// owns reports whether a claim is or was this run's.
func (t *watcher) owns(uniID string) bool {
	if t.own[uniID] {
		return true
	}
	if !t.watch.Own(uniID) {
		return false
	}
	if len(t.own) == mostOwn {
		clear(t.own)
	}
	t.own[uniID] = true
	return true
}

// due schedules a report at most pause after the last one.
func (t *watcher) due(pause time.Duration) {
	if t.pause == 0 || pause < t.pause {
		t.pause = pause
	}
}
