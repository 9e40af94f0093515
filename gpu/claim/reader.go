package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// readLimit is how long a reading of all users' claims takes at most, whatever
// lies there. What has not been read by then is left out, and named.
const (
	readLimit = time.Second
	readTick  = 10 * time.Millisecond
)

// limited is ctx until this process has run for readLimit. Time in which it stood
// still does not count: one that is stopped in the middle of a reading has not
// yet been kept waiting by anybody.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	tick := time.NewTicker(readTick)
	go func() {
		defer tick.Stop()
		for range readLimit / readTick {
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

// A Reader reads what all users of the host claim. Several goroutines may use it.
type Reader struct {
	roots []string
	outer string // the attempt that this process is a part of, or ""
	names names

	entered func(path string) // tests hold up the reading of a folder here; nil

	mu     sync.Mutex
	warned map[string]bool
	hung   map[string]int  // readings of a folder that were given up and have not come back
	late   map[string]bool // folders of which the last reading was not whole
}

// NewReader reads the claims below roots, see Roots. A gpurun that runs within a
// job of another may use what that job was given: its claim is no other's.
func NewReader(roots []string) *Reader {
	return &Reader{roots: roots, outer: os.Getenv(AttemptVariable), warned: map[string]bool{}, hung: map[string]int{}, late: map[string]bool{}}
}

// Others are the claims of all other processes of the host, and what was passed
// over, each of these told once. It takes a second at most. The list is never nil.
func (r *Reader) Others(ctx context.Context) ([]gpu.Claim, []string) {
	claims, warnings, _ := r.look(ctx)
	return claims, warnings
}

// look is Others, and says whether a folder could not be read to its end that
// could be before: then nobody knows whether its user claims something.
func (r *Reader) look(ctx context.Context) ([]gpu.Claim, []string, bool) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var s sight
	seen := map[string]bool{}
	for _, root := range r.roots {
		if abs, err := filepath.EvalSymlinks(root); err == nil && !seen[abs] {
			seen[abs] = true
			r.root(ctx, abs, &s)
		}
	}
	claims := []gpu.Claim{}
	for _, c := range s.found {
		if !c.mine() && (c.UniID != r.outer || r.outer == "") {
			claims = append(claims, c.claims(r.names.of(c.UID))...)
		}
	}
	slices.SortStableFunc(claims, func(a, b gpu.Claim) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), a.Since.Compare(b.Since), cmp.Compare(a.Attempt, b.Attempt))
	})
	return claims, r.news(s.warnings), s.doubt
}

// maxWarned bounds what a reader remembers to have said.
const maxWarned = 1000

// news are the warnings that have not been given before.
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

// A sight is what was seen in one or more folders.
type sight struct {
	found    []*content
	warnings []string
	short    bool // time ran out
	doubt    bool // and that was not to be expected
}

func (s *sight) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf("claims: "+format, args...))
}

// A folder is one user's below a root.
type folder struct {
	path string
	uid  int
}

// root reads all users' folders below one root, side by side: one may lie on a
// file system that does not answer.
func (r *Reader) root(ctx context.Context, root string, s *sight) {
	type answer struct {
		folder
		sight
	}
	folders := r.folders(root, s)
	answers := make(chan answer, len(folders))
	waiting := map[string]bool{}
	for _, f := range folders {
		if r.hangs(f.path) {
			s.warn("%s does not answer and is left out", f.path)
			continue
		}
		waiting[f.path] = true
		go func() {
			a := answer{folder: f}
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
			s.found = append(s.found, a.found...)
			s.warnings = append(s.warnings, a.warnings...)
			s.doubt = r.lateness(a.path, a.short) || s.doubt
		case <-ctx.Done():
			for path := range waiting {
				s.warn("%s does not answer and is left out", path)
				s.doubt = r.lateness(path, true) || s.doubt
			}
			r.abandon(waiting)
			go func() {
				for range len(waiting) {
					r.returned((<-answers).path)
				}
			}()
			return
		}
	}
}

// lateness notes whether a folder was read to its end; true when it was not and
// it is the first time.
func (r *Reader) lateness(path string, late bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.late[path]
	if late {
		r.late[path] = true
	} else if was {
		delete(r.late, path)
	}
	return late && !was
}

// hangs says that a reading of a folder has not come back: another one would
// cost one more thread.
func (r *Reader) hangs(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hung[path] > 0
}

func (r *Reader) abandon(paths map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path := range paths {
		r.hung[path]++
	}
}

func (r *Reader) returned(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hung[path]--; r.hung[path] <= 0 {
		delete(r.hung, path)
	}
}

// folders lists what is named like a user's folder, one's own first.
func (r *Reader) folders(root string, s *sight) []folder {
	d, err := os.Open(root)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.warn("%s cannot be read: %v", root, err)
		}
		return nil
	}
	defer d.Close()
	var list []folder
	for n := 0; n < maxEntries && len(list) < maxFolders; {
		names, err := d.Readdirnames(1024)
		n += len(names)
		for _, name := range names {
			if uid, ok := folderOf(name); ok {
				list = append(list, folder{filepath.Join(root, name), uid})
			}
		}
		if err != nil {
			return list
		}
	}
	s.warn("%s holds more than can be read", root)
	own := folder{filepath.Join(root, prefix+strconv.Itoa(os.Getuid())), os.Getuid()}
	if !slices.Contains(list, own) {
		list = append(list, own)
	}
	return list
}

// folderOf is the uid in the name of a user's folder.
func folderOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	uid, err := strconv.ParseUint(digits, 10, 32)
	return int(uid), ok && err == nil && strconv.FormatUint(uid, 10) == digits
}

// openFolder opens a user's folder, if it is one: a directory of that user's own.
func openFolder(f folder) (*os.File, error) {
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), f.path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		d.Close()
		return nil, err
	}
	if int(st.Uid) != f.uid {
		d.Close()
		return nil, fmt.Errorf("belongs to uid %d, not to the one in its name", st.Uid)
	}
	return d, nil
}
