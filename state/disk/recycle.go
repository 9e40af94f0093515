package disk

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// What an attempt's folder holds. While it waits for its next attempt the marker has
// a name that means nothing: the next one is made of it by a rename that never
// replaces anything. The status record stays as it is: it has the uni_id of the
// attempt that is over, and counts for no other. A folder found so is swept like any.
const (
	statusName = "status"
	resultName = "result"
	spareBegun = "spare.begun"
)

// A recycler gives the folders of attempts that are over to new ones. ext4 skips
// what was deleted in the last minute whenever it makes a file, one by one: a run
// of short jobs that made and deleted three files for each would spend most of
// its time there.
type recycler struct {
	mu    sync.Mutex
	ended map[string]bool // by uni_id, attempts that this process made: whether one has ended as its keeper says
	spare map[string][]string
}

func newRecycler() *recycler {
	return &recycler{ended: map[string]bool{}, spare: map[string][]string{}}
}

// made takes note of a new attempt.
func (r *recycler) made(uniID string) {
	r.mu.Lock()
	r.ended[uniID] = false
	r.mu.Unlock()
}

// saw takes note of a fact. Only an end with a status came from a keeper that had
// closed the record. Where none is known, whatever the end is called (one that was
// stopped is cancelled, not lost), the record still says that it may run, and a
// keeper may still have it open: it must not write into another's.
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

// fit reports whether the folder of an attempt may be used again, and forgets
// the attempt.
func (r *recycler) fit(uniID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	fit := r.ended[uniID]
	delete(r.ended, uniID)
	return fit
}

// keep makes a folder ready for another attempt; false if it cannot be.
func (r *recycler) keep(dir string) bool {
	names, err := readNames(dir)
	if i := slices.Index(names, resultName); i >= 0 && os.Remove(filepath.Join(dir, resultName)) == nil {
		names = slices.Delete(names, i, i+1)
	}
	if err != nil || !slices.Equal(names, []string{begunName, statusName}) {
		return false
	}
	// Package os would look at each name once more.
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

// reuse makes dir of a folder that waits; false if there is none.
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
	removeAttempt(old) // the file system cannot do that; the caller makes a new one
	return false
}

// drop removes what waits.
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
