// Package configcopy writes the config files that jobs get, and prevents one that a
// running job is using from being replaced.
//
// An attempt holds a shared flock on its copy's lock file for as long as it lives. Whoever wants to
// replace the content must first get the exclusive lock. The kernel drops a lock with its
// process, so a crash leaves nothing behind. The lock is not on the copy itself, which others may
// read and so could lock.
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

// A Copy is a config file that a job gets.
type Copy struct {
	Path    string
	Lock    string      // its lock file; "" for a file that is never replaced, as its name is made from its content
	Mode    os.FileMode // the most permissions it may have
	Content []byte
}

// Sum returns the digest by which Hold recognizes content.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Write puts the copy in its place by rename; a file that has its content already keeps it. Other
// content is replaced unless a running attempt holds it. A file without a lock is not replaced: it
// was changed by hand, and the jobs started with it may still be reading it.
func (c *Copy) Write() error {
	sum, err := sumOf(c.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c.put()
	case err != nil:
		return fmt.Errorf("cannot read config %q: %w", c.Path, err)
	case sum == Sum(c.Content):
		fi, err := os.Stat(c.Path)
		if err == nil && fi.Mode().Perm()&^c.Mode != 0 { // the job files have become private
			err = os.Chmod(c.Path, fi.Mode().Perm()&c.Mode)
		}
		return err
	case c.Lock == "":
		return fmt.Errorf("config %q was changed after it was written; delete it", c.Path)
	}
	lock, err := lock(c.Lock, unix.LOCK_EX, 0)
	if held := (*host.HeldError)(nil); errors.As(err, &held) {
		return fmt.Errorf("config %q is in use by a running job with other values (%s holds it); start this job after that one ends, or give it its own path", c.Path, held.Holder)
	}
	if err != nil {
		return fmt.Errorf("cannot lock config %q: %w", c.Path, err)
	}
	defer lock.Close()
	return c.put()
}

func (c *Copy) put() error {
	err := os.MkdirAll(filepath.Dir(c.Path), 0o777)
	if err == nil {
		err = renameio.WriteFile(c.Path, c.Content, 0o666&c.Mode)
	}
	if err != nil {
		return fmt.Errorf("cannot write config %q: %w", c.Path, err)
	}
	return nil
}

// lock locks a lock file, which it makes.
func lock(path string, how int, limit time.Duration) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := host.OpenOwn(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := host.Flock(f, how, limit); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Hold keeps the file at path from being replaced until the result is closed. It fails if
// the content does not match sum: another run has replaced it. A file without a lock is never replaced.
func Hold(path, lockFile, sum string) (held io.Closer, err error) {
	held = io.NopCloser(nil)
	if lockFile != "" {
		if held, err = lock(lockFile, unix.LOCK_SH, holdWait); err != nil {
			return nil, fmt.Errorf("cannot lock config %q: %w", path, err)
		}
	}
	got, err := sumOf(path)
	switch {
	case err != nil:
		err = fmt.Errorf("cannot read config %q: %w", path, err)
	case got != sum:
		err = fmt.Errorf("config %q was replaced before the job started: another run writes the same path with other values", path)
	}
	if err != nil {
		held.Close()
		return nil, err
	}
	return held, nil
}

func sumOf(path string) (string, error) {
	f, _, err := host.OpenRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
