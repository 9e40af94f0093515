package disk

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// NewAttempt creates the folder of a new attempt. Its uni_id sorts by time and is
// unique without coordination. It consists of letters, digits and one dash, so it is
// safe in file names and arguments.
func (s *State) NewAttempt(file int) (uniID, dir string, err error) {
	for {
		uniID = newUniID(time.Now())
		dir = s.AttemptDir(file, uniID)
		err = os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrNotExist) { // somebody removed the parent; the next run trusts it again
			err = os.MkdirAll(dir, 0o755)
		}
		if !errors.Is(err, fs.ErrExist) {
			return uniID, dir, in(s.files[file].dir, err)
		}
	}
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

// RemoveAttempt removes an attempt's folder once every end appended so far is on disk.
// It does not wait for that.
func (s *State) RemoveAttempt(file int, uniID string) {
	s.sync.remove(s.AttemptDir(file, uniID))
}

// attemptFolders lists the attempt folders in a batch's folder.
func attemptFolders(dir string) map[string]bool {
	entries, _ := os.ReadDir(filepath.Join(dir, triesName))
	left := make(map[string]bool, len(entries))
	for _, e := range entries {
		left[e.Name()] = false
	}
	return left
}

// short returns 8 hex digits of a hash, to tell long names apart.
func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
