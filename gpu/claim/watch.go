package claim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A Watch says what a run wants to know at once when others change what they publish.
// Anything else it learns within a second.
type Watch struct {
	Run    string                  // this run's ID: its wish is no news
	Own    func(uniID string) bool // whether a claim is this run's: no news
	Urgent func(c gpu.Claim) bool
	Tell   func() // something has changed: read again
}

// Changes that matter: a file is written or removed, or its holder is gone, however that
// ended: the kernel then closes the file. Not that somebody reads it.
const (
	inFolder = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	inRoot   = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
)

// How often news that is not urgent is told: that runs wait soon, since whoever leaves a
// device decides who is next; that devices are free at a pace that a reading of all can keep.
const (
	wishEvery  = 100 * time.Millisecond
	claimEvery = time.Second
)

// maxWatched bounds the folders that are watched: the kernel allows a user 8192 or more.
const maxWatched = 1024

// Watch tells of changes until ctx is done. It returns an error if this host cannot watch
// folders; then polling has to do.
func (r *Reader) Watch(ctx context.Context, w Watch) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	defer f.Close()
	t := &tail{watch: w, fd: fd, roots: map[int32]string{}, folders: map[int32]string{}}
	for _, root := range r.roots {
		t.addRoot(root)
	}
	buf := make([]byte, 64<<10)
	var last time.Time
	for {
		var due time.Time
		if t.pause > 0 {
			due = last.Add(t.pause)
		}
		_ = f.SetReadDeadline(due)
		n, err := f.Read(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.Join(ctx.Err(), err)
		}
		t.handle(buf[:max(n, 0)])
		if now := time.Now(); t.urgent || t.pause > 0 && now.Sub(last) >= t.pause {
			last, t.pause, t.urgent = now, 0, false
			w.Tell()
		}
	}
}

// A tail is a Watch at work.
type tail struct {
	watch   Watch
	fd      int
	roots   map[int32]string // by watch descriptor
	folders map[int32]string
	pause   time.Duration // from the last telling until there is something to tell; 0 if there is nothing
	urgent  bool          // tell at once
}

func (t *tail) addRoot(root string) {
	wd, err := unix.InotifyAddWatch(t.fd, root, inRoot)
	if err != nil {
		return // no other user can publish anything there either
	}
	t.roots[int32(wd)] = root
	names, _ := os.ReadDir(root)
	for _, e := range names {
		t.addFolder(root, e.Name())
	}
}

// addFolder watches a user's folder. One that cannot be watched is still polled.
func (t *tail) addFolder(root, name string) {
	uid, ok := folderOf(name)
	if !ok || len(t.folders) >= maxWatched {
		return
	}
	d, err := os.Open(root)
	if err != nil {
		return
	}
	defer d.Close()
	if isFolderOf(d, name, uid) != nil {
		return
	}
	path := filepath.Join(root, name)
	if wd, err := unix.InotifyAddWatch(t.fd, path, inFolder); err == nil {
		t.folders[int32(wd)] = path
	}
}

// handle goes through a batch of events.
func (t *tail) handle(buf []byte) {
	type file struct{ folder, name string }
	changed := map[file]bool{} // one job's end makes several events of one file
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
			t.addFolder(root, name)
			t.due(wishEvery)
		case folder != "":
			changed[file{folder, name}] = true
		}
	}
	for f := range changed {
		t.file(f.folder, f.name)
	}
}

// file looks at a file that has changed.
func (t *tail) file(path, name string) {
	uniID, isClaim := strings.CutSuffix(name, suffix)
	if isClaim && t.watch.Own(uniID) || !isClaim && (!strings.HasSuffix(name, wishSuffix) || name == fileName(t.watch.Run, 0)+wishSuffix) {
		return
	}
	if !isClaim {
		t.due(wishEvery)
		return
	}
	t.due(claimEvery)
	uid, _ := folderOf(filepath.Base(path))
	d, err := openFolder(folder{path: path, uid: uid})
	if err != nil {
		return
	}
	defer d.Close()
	c, err := open(d, name, uid, parse)
	if err != nil {
		return
	}
	for _, on := range c.claims("") {
		t.urgent = t.urgent || t.watch.Urgent(on)
	}
}

// due has something told this long after the last telling, or earlier.
func (t *tail) due(pause time.Duration) {
	if t.pause == 0 || pause < t.pause {
		t.pause = pause
	}
}
