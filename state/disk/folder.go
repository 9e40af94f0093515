package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// These are the names of .gpurun and of what is in a batch's folder.
const (
	hidden       = ".gpurun"
	ledgerName   = "ledger.jsonl"
	lockName     = "lock"
	runLogName   = "run.log"
	outputName   = "run.out"
	editsName    = "edits.lock"
	logsName     = "logs"
	triesName    = "attempts"
	curvesName   = "metrics"
	copiesName   = "snapshots"
	readingsName = "gpus.jsonl"

	configsName = "config.locks" // next to the batch folders
)

// Folder returns the state folder of a job file, whether or not it exists: .gpurun/NAME next to the
// file, or NAME-HASH under stateDir. The hash of the real path distinguishes files with the same
// name.
func Folder(jobFile, stateDir string) string {
	if real, err := RealPath(jobFile); err == nil {
		jobFile = real
	}
	dir, name := filepath.Split(jobFile)
	if stateDir == "" {
		return filepath.Join(dir, hidden, name)
	}
	if abs, err := filepath.Abs(stateDir); err == nil {
		stateDir = abs
	}
	return filepath.Join(stateDir, name+"-"+shortHash(jobFile))
}

// RealPath returns the absolute path of a job file with links resolved. A missing file is not an
// error, because its ledger can still be read.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	return abs, nil
}

// A FolderError reports why a state folder cannot be used.
type FolderError struct {
	Dir string
	Err error
}

func (e *FolderError) Error() string {
	var why string
	switch {
	case errors.Is(e.Err, unix.EROFS):
		why = "the file system is read-only: choose another folder with --state-dir"
	case errors.Is(e.Err, fs.ErrPermission):
		why = "no write permission: choose another folder with --state-dir"
	case errors.Is(e.Err, unix.ENOSPC), errors.Is(e.Err, unix.EDQUOT):
		why = "the disk is full: free some space, or choose another folder with --state-dir"
	default:
		why = e.Err.Error()
	}
	return fmt.Sprintf("cannot keep state in %s: %s", e.Dir, why)
}

func (e *FolderError) Unwrap() error { return e.Err }

// in wraps an error in a FolderError; nil stays nil.
func in(dir string, err error) error {
	if err == nil {
		return nil
	}
	return &FolderError{dir, host.Cause(err)}
}

// makeFolder creates a batch folder and its fixed subfolders, and syncs the new directory entries to
// disk.
func makeFolder(dir string) error {
	var made []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return in(dir, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // Share opens it to other users
		return in(dir, err)
	}
	for _, sub := range []string{logsName, triesName} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return in(dir, err)
		}
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return in(dir, err)
	}
	KeepOutOfGit(filepath.Dir(dir))
	for _, d := range made {
		syncDir(filepath.Dir(d))
	}
	if len(made) > 0 {
		syncDir(dir)
	}
	return nil
}

// KeepOutOfGit hides a .gpurun folder from "git status" and "git add". An existing
// .gitignore is left alone, and failure to write one is ignored.
func KeepOutOfGit(dir string) {
	if filepath.Base(dir) != hidden {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, ".gitignore"), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString("*\n")
}

// syncDir syncs a folder's entries to disk. It ignores errors, because file systems without support
// for this do not need it.
func syncDir(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	_ = d.Sync()
}

// Replace writes a small file atomically: readers see either the old or the new content.
func Replace(path string, data []byte) error {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return errors.New("it is a folder") // the error of the rename would name the temporary file
	}
	return host.Cause(renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o644)))
}

// Changed returns when the ledger in a batch's folder last changed.
func Changed(dir string) time.Time {
	fi, err := os.Stat(filepath.Join(dir, ledgerName))
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}
