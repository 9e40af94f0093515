// Package configcopy writes the config files that jobs get, and prevents one that a
// running job is using from being replaced.
//
// An attempt holds a shared flock on its copy for as long as it lives. Whoever wants to
// replace the content must first get the exclusive lock. The kernel drops a lock with its
// process, so a crash leaves nothing behind.
package configcopy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// holdWait is how long Hold waits for a Write in progress.
const holdWait = 2 * time.Second

// Sum returns the digest by which Hold recognizes content.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Write puts content at path by rename; a file that has it already is left alone. Other
// content is replaced unless a running attempt holds it. A file named by its content
// (byContent) is never replaced: it was changed by hand, and the jobs started with it
// may still be reading it.
func Write(path string, content []byte, byContent bool) error {
	for {
		old, _, err := host.OpenRegular(path)
		if errors.Is(err, os.ErrNotExist) {
			return put(path, content)
		}
		if err != nil {
			return fmt.Errorf("cannot read config %q: %w", path, err)
		}
		done, err := replace(old, path, content, byContent)
		old.Close()
		if done || err != nil {
			return err
		}
	}
}

// replace returns done=false if somebody else has replaced the file meanwhile.
func replace(old *os.File, path string, content []byte, byContent bool) (done bool, err error) {
	sum, err := sumOf(old)
	switch {
	case err != nil:
		return false, fmt.Errorf("cannot read config %q: %w", path, err)
	case sum == Sum(content):
		return true, nil
	case byContent:
		return false, fmt.Errorf("config %q was changed after it was written; delete it", path)
	}
	switch err := unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, fmt.Errorf("config %q is in use by a running job with other values; start this job after that one ends, or give it its own path", path)
	case !current(old, path):
		return false, nil
	}
	return true, put(path, content)
}

func put(path string, content []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = renameio.WriteFile(path, content, 0o666)
	}
	if err != nil {
		return fmt.Errorf("cannot write config %q: %w", path, err)
	}
	return nil
}

// Hold keeps the file at path from being replaced until the result is closed. It fails if
// the content does not match sum: another run has replaced it.
func Hold(path, sum string) (io.Closer, error) {
	for end := time.Now().Add(holdWait); ; {
		f, _, err := host.OpenRegular(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read config %q: %w", path, err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		busy := errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end)
		if !busy && current(f, path) {
			got, err := sumOf(f)
			if err == nil && got == sum {
				return f, nil // also if the file system has no locks
			}
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("cannot read config %q: %w", path, err)
			}
			return nil, fmt.Errorf("config %q was replaced before the job started: another run writes the same path with other values", path)
		}
		f.Close()
		if busy {
			<-time.After(5 * time.Millisecond)
		}
	}
}

// current reports whether path still refers to f.
func current(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func sumOf(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
