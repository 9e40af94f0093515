package claim

import (
	"cmp"
	"context"
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

// readLimit is the most that a reading of all users' claims may take, whatever it
// finds. Anything not read by then is left out, with a warning.
const (
	readLimit = time.Second
	readTick  = 10 * time.Millisecond
)

// limited cancels ctx once this process has run for readLimit. Time during which it
// was stopped does not count: nobody kept it waiting then.
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

// A Reader reads what all users of the host claim. It is safe for concurrent use.
type Reader struct {
	roots []string
	outer string // the attempt that this process is part of, or ""

	entered func(path string) // hook for tests to delay reading a folder; nil otherwise

	mu     sync.Mutex
	warned map[string]bool
	hung   map[string]int // abandoned readings of a folder that have not returned
	doubts doubts
}

// NewReader returns a reader of the claims below roots; see Roots. A gpurun inside a
// job of another gpurun may use what that job was given, so it ignores that claim.
func NewReader(roots []string) *Reader {
	return &Reader{roots: roots, outer: os.Getenv(AttemptVariable), warned: map[string]bool{}, hung: map[string]int{}}
}

// Others returns the claims of all other processes on the host, and warnings about what
// it ignored, each only once. It takes at most a second. The list is never nil.
func (r *Reader) Others(ctx context.Context) ([]gpu.Claim, []string) {
	claims, warnings, _ := r.look(ctx)
	return claims, warnings
}

// look is Others, and also reports whether something that may contain claims could not
// be read completely. Then nothing may start; see doubts.
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
			claims = append(claims, c.claims(login(c.UID))...)
		}
	}
	slices.SortStableFunc(claims, func(a, b gpu.Claim) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), a.Since.Compare(b.Since), cmp.Compare(a.Attempt, b.Attempt))
	})
	return claims, r.news(s.warnings), s.doubt
}

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

// A sight is what a reading found in one or more folders.
type sight struct {
	found    []*content
	warnings []string
	short    bool // not read completely, because of what is there
	ours     bool // not read completely, because this process lacks something
	doubt    bool // nothing may start
}

func (s *sight) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf("claims: "+format, args...))
}

// A folder is one user's folder below a root.
type folder struct {
	path string
	uid  int
	dev  uint64 // of the root
}

// root reads all users' folders below one root in parallel: one may be on a file
// system that does not answer.
func (r *Reader) root(ctx context.Context, root string, s *sight) {
	type answer struct {
		folder
		sight
	}
	folders := listFolders(ctx, root, s)
	answers := make(chan answer, len(folders))
	waiting := map[string]folder{}
	for _, f := range folders {
		if r.hangs(f.path) {
			s.warn("%s does not answer and is left out", f.path)
			s.doubt = r.doubts.short(f, s, nil) || s.doubt
			continue
		}
		waiting[f.path] = f
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
			s.warnings = append(s.warnings, a.warnings...)
			s.doubt = r.doubts.judge(a.folder, s, &a.sight) || s.doubt
		case <-ctx.Done():
			for path, f := range waiting {
				s.warn("%s does not answer and is left out", path)
				s.doubt = r.doubts.short(f, s, nil) || s.doubt
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

// hangs reports whether a reading of a folder has not returned yet. Another one would
// tie up one more thread.
func (r *Reader) hangs(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hung[path] > 0
}

func (r *Reader) abandon(paths map[string]folder) {
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

// folderOf returns the uid in the name of a user's folder.
func folderOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	uid, err := strconv.ParseUint(digits, 10, 32)
	return int(uid), ok && err == nil && strconv.FormatUint(uid, 10) == digits
}

// openFolder opens a user's folder if it is a directory that the user owns.
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
		return nil, fmt.Errorf("it belongs to uid %d, not to the one in its name", st.Uid)
	}
	return d, nil
}
