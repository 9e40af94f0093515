package disk

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// Files in an attempt's folder. While a recycled folder waits for its next attempt,
// the marker has a meaningless name; the next attempt renames it, which never replaces
// anything. The status record stays: it has the old attempt's uni_id, so it counts for
// no other. A folder found in this state is swept like any other.
const (
	statusName = "status"
	resultName = "result"
	spareBegun = "spare.begun"
)

// A recycler reuses the folders of attempts that are over. Whenever ext4 creates a
// file it skips recently deleted inodes one by one, so a run of short jobs that
// created and deleted three files each would spend most of its time there.
type recycler struct {
	mu    sync.Mutex
	ended map[string]bool // by uni_id, this process's attempts: whether the keeper has reported the end
	spare map[string][]string
}

func newRecycler() *recycler {
	return &recycler{ended: map[string]bool{}, spare: map[string][]string{}}
}

// made notes a new attempt.
func (r *recycler) made(uniID string) {
	r.mu.Lock()
	r.ended[uniID] = false
	r.mu.Unlock()
}

// saw notes a fact. Only an end with an exit status came from a keeper that has closed
// the record. Without one, whatever the state (a stopped attempt is cancelled, not
// lost), a keeper may still have the record open, and must not write into another
// attempt's.
func (r *recycler) saw(f *state.Fact) {
	if f.Kind != state.KindEnd || f.ExitCode == nil && f.Signal == "" {
		return
	}
	r.mu.Lock()
	if _, ours := r.ended[f.UniID]; ours {
		r.ended[f.UniID] = true
	}
	r.mu.Unlock()
}

// fit reports whether an attempt's folder may be reused, and forgets the attempt.
func (r *recycler) fit(uniID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	fit := r.ended[uniID]
	delete(r.ended, uniID)
	return fit
}

// keep prepares a folder for reuse; false if it is not fit for that.
func (r *recycler) keep(dir string) bool {
	names, err := readNames(dir)
	if i := slices.Index(names, resultName); i >= 0 && os.Remove(filepath.Join(dir, resultName)) == nil {
		names = slices.Delete(names, i, i+1)
	}
	if err != nil || !slices.Equal(names, []string{begunName, statusName}) {
		return false
	}
	// os.Rename would stat each name first.
	if unix.Rename(filepath.Join(dir, begunName), filepath.Join(dir, spareBegun)) != nil {
		return false
	}
	parent := filepath.Dir(dir)
	r.mu.Lock()
	r.spare[parent] = append(r.spare[parent], dir)
	r.mu.Unlock()
	return true
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(8)
	slices.Sort(names)
	return names, err
}

// reuse turns a waiting folder into dir; false if there is none.
func (r *recycler) reuse(dir string) bool {
	parent := filepath.Dir(dir)
	r.mu.Lock()
	list := r.spare[parent]
	if len(list) == 0 {
		r.mu.Unlock()
		return false
	}
	old := list[len(list)-1]
	r.spare[parent] = list[:len(list)-1]
	r.mu.Unlock()
	if unix.Renameat2(unix.AT_FDCWD, old, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE) == nil {
		return true
	}
	removeAttempt(old) // not supported by the file system; the caller creates a new one
	return false
}

// drop removes the waiting folders.
func (r *recycler) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.spare {
		for _, dir := range list {
			removeAttempt(dir)
		}
	}
	clear(r.spare)
}
