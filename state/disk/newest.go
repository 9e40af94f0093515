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

// NewestBatch finds the job file whose ledger is the newest: of those in dir and in
// the folders right below it, else of those in the nearest parent that has one.
// stateDir is where the ledgers are; "" for .gpurun beside each job file.
func NewestBatch(dir, stateDir string) (jobFile string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	here := []string{dir}
	below, _ := os.ReadDir(dir)
	for _, e := range below {
		here = append(here, filepath.Join(dir, e.Name()))
	}
	for d := dir; ; d = filepath.Dir(d) {
		newest := newestBeside
		if stateDir != "" {
			newest = func(dirs []string) string { return newestApart(stateDir, dirs) }
		}
		if f := newest(here); f != "" {
			return f, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("%s: %w", dir, ErrNoBatch)
		}
		here = []string{filepath.Dir(d)}
	}
}

// newestBeside looks for the newest ledger beside a job file of these folders.
func newestBeside(dirs []string) string {
	folders := make([]string, len(dirs))
	for i, d := range dirs {
		folders[i] = filepath.Join(d, hidden)
	}
	return newestOf(folders)
}

// newestApart looks for the newest ledger of a job file of these folders among all
// that are kept in one place.
func newestApart(stateDir string, dirs []string) string {
	var newest string
	var at time.Time
	entries, _ := os.ReadDir(stateDir)
	for _, e := range entries {
		i := strings.LastIndexByte(e.Name(), '-')
		fi, err := os.Stat(filepath.Join(stateDir, e.Name(), ledgerName))
		if i < 0 || err != nil || fi.ModTime().Before(at) {
			continue
		}
		for _, d := range dirs {
			job := filepath.Join(d, e.Name()[:i])
			if _, err := os.Stat(job); err == nil && filepath.Base(Folder(job, stateDir)) == e.Name() {
				newest, at = job, fi.ModTime()
			}
		}
	}
	return newest
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
