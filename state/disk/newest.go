package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrNoBatch says that no state is near.
var ErrNoBatch = errors.New("no batch has run here: name its job file with --file")

// NewestBatch finds the job file whose ledger is the newest: in .gpurun of dir,
// else of a folder right below it, else of the nearest parent that has one.
func NewestBatch(dir string) (jobFile string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	below, _ := filepath.Glob(filepath.Join(dir, "*", hidden))
	if f := newestOf(append(below, filepath.Join(dir, hidden))); f != "" {
		return f, nil
	}
	for d := filepath.Dir(dir); ; d = filepath.Dir(d) {
		if f := newestOf([]string{filepath.Join(d, hidden)}); f != "" {
			return f, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("%s: %w", dir, ErrNoBatch)
		}
	}
}

// newestOf looks through state folders for the newest ledger of a job file that is
// still there.
func newestOf(folders []string) string {
	var newest string
	var at time.Time
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range entries {
			fi, err := os.Stat(filepath.Join(folder, e.Name(), ledgerName))
			job := filepath.Join(filepath.Dir(folder), e.Name())
			if err != nil || fi.ModTime().Before(at) || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if _, err := os.Stat(job); err == nil {
				newest, at = job, fi.ModTime()
			}
		}
	}
	return newest
}
