package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Names within a batch's folder.
const (
	hidden     = ".gpurun"
	ledgerName = "ledger.jsonl"
	lockName   = "lock"
	runLogName = "run.log"
	logsName   = "logs"
	triesName  = "attempts"
	begunName  = "begun" // in an attempt's folder, made by its own process
)

// Folder says where the state of one job file is, whether it is there or not:
// .gpurun/NAME beside the file, or under stateDir NAME-HASH of its real path, so
// that two files of one name do not meet there.
func Folder(jobFile, stateDir string) string {
	if real, err := filepath.EvalSymlinks(jobFile); err == nil {
		jobFile = real
	}
	if abs, err := filepath.Abs(jobFile); err == nil {
		jobFile = abs
	}
	dir, name := filepath.Split(jobFile)
	if stateDir == "" {
		return filepath.Join(dir, hidden, name)
	}
	if abs, err := filepath.Abs(stateDir); err == nil {
		stateDir = abs
	}
	sum := sha256.Sum256([]byte(jobFile))
	return filepath.Join(stateDir, name+"-"+hex.EncodeToString(sum[:4]))
}

// A FolderError says that a state folder cannot be used, and why.
type FolderError struct {
	Dir string
	Err error
}

func (e *FolderError) Error() string {
	var why string
	switch {
	case errors.Is(e.Err, unix.EROFS):
		why = "its file system is read-only: name another with --state-dir"
	case errors.Is(e.Err, fs.ErrPermission):
		why = "you may not write there: name another with --state-dir"
	case errors.Is(e.Err, unix.ENOSPC), errors.Is(e.Err, unix.EDQUOT):
		why = "the disk is full: make room, or name another with --state-dir"
	default:
		why = e.Err.Error()
	}
	return fmt.Sprintf("cannot keep state in %s: %s", e.Dir, why)
}

func (e *FolderError) Unwrap() error { return e.Err }

// makeFolder makes a batch folder with what is always in it, and carries the new
// names to the disk.
func makeFolder(dir string) error {
	var made []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	for _, sub := range []string{logsName, triesName} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return &FolderError{dir, cause(err)}
		}
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &FolderError{dir, err}
	}
	keepOutOfGit(filepath.Dir(dir))
	for _, d := range made {
		syncDir(filepath.Dir(d))
	}
	if len(made) > 0 {
		syncDir(dir)
	}
	return nil
}

// keepOutOfGit keeps a .gpurun folder out of "git status" and "git add". One that
// is there counts, whatever it says; one that cannot be written is not missed.
func keepOutOfGit(dir string) {
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

// cause takes the path out of an error whose message names it anyway.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// syncDir carries a folder's names to the disk. File systems that cannot do it
// say so, and then it is not needed.
func syncDir(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	_ = d.Sync()
}
