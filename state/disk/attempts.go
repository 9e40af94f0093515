package disk

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gpurun/state"
	"gpurun/state/host"
)

// A journal assigns slots to this run's attempts, and tracks which attempts of earlier runs are
// open.
type journal struct {
	mu      sync.Mutex
	path    string
	slots   map[string]int // of open attempts, by uni_id; -1 if the attempt's journal was removed
	free    []int
	size    int             // total number of slots
	earlier map[string]bool // attempts of earlier runs whose files are still needed
}

// NewAttempt creates an attempt with a slot for its record or, if apart is set, with a folder. Its
// uni_id sorts by time and is unique without coordination. It consists of letters, digits and one
// dash, so it is safe in file names and arguments.
func (s *State) NewAttempt(file int, apart bool) (uniID string, slot state.Slot, err error) {
	uniID = newUniID(time.Now())
	dir := s.AttemptDir(file, uniID)
	if apart {
		return uniID, slot, in(s.files[file].dir, os.MkdirAll(dir, 0o755))
	}
	j := &s.files[file].journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := os.Lstat(j.path); err != nil { // it does not exist yet, or someone removed it
		j.path, j.size, j.free = dir+state.JournalSuffix, 0, nil
		for id := range j.slots {
			j.slots[id] = -1
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return "", slot, in(s.files[file].dir, err)
		}
		f, err := host.OpenOwn(j.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return "", slot, in(s.files[file].dir, err)
		}
		f.Close()
	}
	slot = state.Slot{Journal: j.path, N: j.size}
	if last := len(j.free) - 1; last >= 0 {
		slot.N, j.free = j.free[last], j.free[:last]
	} else {
		j.size++
	}
	j.slots[uniID] = slot.N
	return uniID, slot, nil
}

// newUniID returns the time to the second plus 50 random bits.
func newUniID(now time.Time) string {
	return now.UTC().Format("20060102t150405") + "-" + strings.ToLower(rand.Text()[:10])
}

// AttemptDir returns the folder of an attempt, which may not exist.
func (s *State) AttemptDir(file int, uniID string) string {
	return AttemptDir(s.files[file].dir, uniID)
}

// AttemptDir returns the folder of an attempt within a batch's folder.
func AttemptDir(dir, uniID string) string {
	return filepath.Join(dir, triesName, filepath.Base(uniID))
}

// RemoveAttempt removes an attempt's files once every end appended so far is on disk. It does not
// wait for that.
func (s *State) RemoveAttempt(file int, uniID string) {
	s.sync.then(func() {
		dir, j := s.AttemptDir(file, uniID), &s.files[file].journal
		_ = os.Remove(dir + state.ResultSuffix)
		j.mu.Lock()
		defer j.mu.Unlock()
		n, ours := j.slots[uniID]
		if ours && n >= 0 {
			j.free = append(j.free, n)
		}
		delete(j.slots, uniID)
		if delete(j.earlier, uniID); !ours {
			_ = os.RemoveAll(dir) // if this fails, the next Open removes the folder
		}
	})
}

// sweep removes the journals and then the void files in a batch's folder, if no attempt of this run
// or of earlier runs needs them. The order matters: void files can go once the journals are gone,
// because an attempt without its journal cannot begin.
func (f *fileState) sweep() {
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	if len(f.journal.slots)+len(f.journal.earlier) > 0 {
		return
	}
	for _, suffix := range []string{state.JournalSuffix, state.VoidSuffix} {
		for _, name := range names(filepath.Join(f.dir, triesName)) {
			if strings.HasSuffix(name, suffix) {
				_ = os.Remove(filepath.Join(f.dir, triesName, name))
			}
		}
	}
}

// HasAttempts reports whether a batch's folder contains files of attempts. Runs remove the files of
// attempts that have ended.
func HasAttempts(dir string) bool { return len(names(filepath.Join(dir, triesName))) > 0 }

func names(dir string) (all []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// attemptsLeft returns a map of the attempts that have files in a batch's folder. All values are
// false; callers set those of ended attempts to true.
func attemptsLeft(dir string) (map[string]bool, error) {
	left := map[string]bool{}
	for _, name := range names(filepath.Join(dir, triesName)) {
		switch filepath.Ext(name) {
		case state.JournalSuffix:
			b, err := host.ReadOwn(filepath.Join(dir, triesName, name), 1<<30)
			if err != nil {
				return nil, in(dir, err)
			}
			for uniID := range state.Slots(b) {
				left[filepath.Base(uniID)] = false
			}
		case state.VoidSuffix:
		default:
			left[strings.TrimSuffix(name, state.ResultSuffix)] = false
		}
	}
	return left, nil
}

// shortHash returns 8 hex digits of a hash, which distinguish long names.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
