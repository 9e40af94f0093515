package disk

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Batch is a job file that has state.
type Batch struct {
	File string    // the job file, which may be gone
	Used time.Time // when its ledger last changed
}

// Batches returns the job files in a folder that have a ledger, most recently used first. A link in
// the folder stands for its target. Parent folders and subfolders are not searched. stateDir is the
// folder with the ledgers; "" means .gpurun next to each job file.
func Batches(dir, stateDir string) []Batch {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	jobs := linked(dir)
	entries, _ := os.ReadDir(cmp.Or(stateDir, filepath.Join(dir, hidden)))
	for _, e := range entries {
		job := filepath.Join(dir, e.Name())
		if stateDir != "" {
			job = job[:max(strings.LastIndexByte(job, '-'), 0)]
		}
		if filepath.Base(Folder(job, stateDir)) == e.Name() {
			jobs = append(jobs, job)
		}
	}
	var found []Batch
	seen := map[string]bool{}
	for _, job := range jobs {
		folder := Folder(job, stateDir)
		fi, err := os.Stat(filepath.Join(folder, ledgerName))
		if err != nil || seen[folder] {
			continue
		}
		seen[folder] = true
		found = append(found, Batch{job, fi.ModTime()})
	}
	slices.SortStableFunc(found, func(a, b Batch) int {
		return cmp.Or(b.Used.Compare(a.Used), strings.Compare(a.File, b.File))
	})
	return found
}

// linked returns the symbolic links in a folder that lead to regular files.
func linked(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var links []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
			links = append(links, path)
		}
	}
	return links
}

// NearbyBatches returns the job files with a ledger in dir's direct subfolders and in its nearest
// parent that has any. Callers suggest them when dir itself has none.
func NearbyBatches(dir, stateDir string) []Batch {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	var near []Batch
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && e.Name() != hidden {
			near = append(near, Batches(filepath.Join(dir, e.Name()), stateDir)...)
		}
	}
	for d := dir; d != filepath.Dir(d); {
		d = filepath.Dir(d)
		if above := Batches(d, stateDir); len(above) > 0 {
			near = append(near, above...)
			break
		}
	}
	slices.SortStableFunc(near, func(a, b Batch) int { return b.Used.Compare(a.Used) })
	return near
}
