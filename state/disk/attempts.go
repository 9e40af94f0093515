package disk

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// NewAttempt makes the folder of a new attempt. Its uni_id sorts by time and is
// unique without asking anybody: letters, digits and one dash, fit for file names
// and arguments.
func (s *State) NewAttempt(file int) (uniID, dir string, err error) {
	for {
		uniID = newUniID(time.Now())
		dir = s.AttemptDir(file, uniID)
		if s.recycler.reuse(dir) {
			s.recycler.made(uniID)
			return uniID, dir, nil
		}
		err = os.Mkdir(dir, 0o777)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) { // somebody tidied up
			if err = os.MkdirAll(filepath.Dir(dir), 0o777); err == nil {
				continue
			}
		}
		if err != nil {
			return "", "", &FolderError{s.dirs[file], cause(err)}
		}
		s.recycler.made(uniID)
		return uniID, dir, nil
	}
}

var uniEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newUniID is the time to the second and 50 random bits.
func newUniID(now time.Time) string {
	var b [7]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return now.UTC().Format("20060102t150405") + "-" + uniEncoding.EncodeToString(b[:])[:10]
}

// AttemptDir is the folder of an attempt, whether it is there or not.
func (s *State) AttemptDir(file int, uniID string) string { return AttemptDir(s.dirs[file], uniID) }

// AttemptDir is the folder of an attempt below a batch's folder.
func AttemptDir(dir, uniID string) string {
	return filepath.Join(dir, triesName, filepath.Base(uniID))
}

// RemoveAttempt removes the folder of an attempt, or gives it to another, once
// every end that was appended before is on the disk. It does not wait.
func (s *State) RemoveAttempt(file int, uniID string) {
	s.sync.remove(remains{s.AttemptDir(file, uniID), s.recycler.fit(uniID)})
}

// removeAttempt removes the few files that an attempt's folder has, then itself.
// What cannot be removed now is swept when the state is opened next.
func removeAttempt(dir string) {
	for _, name := range []string{statusName, begunName, resultName, spareBegun} {
		_ = os.Remove(filepath.Join(dir, name))
	}
	if err := os.Remove(dir); err != nil && !isNotExist(err) {
		_ = os.RemoveAll(dir)
	}
}

// attemptFolders are those that a file has now; none of them is over as far as is
// known. They are listed before the ledger is read.
func (s *State) attemptFolders(file int) map[string]bool {
	entries, err := os.ReadDir(filepath.Join(s.dirs[file], triesName))
	if err != nil {
		return nil
	}
	left := make(map[string]bool, len(entries))
	for _, e := range entries {
		left[e.Name()] = false
	}
	return left
}

// sweep removes the folders of attempts that the ledgers know to be over, once
// that is on the disk. Of those that no ledger knows, the ones that never began
// go too: nothing of them ran. One that did has lost its start to a broken line,
// and may be running still: it stays, and is named.
func (s *State) sweep() {
	for i, left := range s.left {
		for id, over := range left {
			if _, open := s.history.Open[id]; open {
				continue
			}
			if began(s.AttemptDir(i, id)) && !over {
				s.warnings = append(s.warnings, fmt.Sprintf("%s: this attempt began, and the ledger has no start of it; look whether it runs, then remove the folder", s.AttemptDir(i, id)))
				continue
			}
			s.sync.remove(remains{dir: s.AttemptDir(i, id)})
		}
	}
	s.left = nil
}

func dirOf(path string) string { return filepath.Dir(path) }

// short tells long names apart: 8 hex digits of a hash.
func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
