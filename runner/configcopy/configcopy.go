// Package configcopy writes the config files of jobs, and never replaces one that a running job is
// using.
//
// An attempt holds a shared flock on its copy's lock file until it ends. Replacing the content
// requires the exclusive lock. The kernel releases the lock when the process ends, so a crash
// leaves no stale lock. The lock is on a separate file because anyone who can read the copy could
// lock it. The lock file also contains the digest of the content that gpurun last wrote. Any other
// content is the work of a user and must be kept.
package configcopy

import (
	"context"
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

// A Copy is a job's config file.
type Copy struct {
	Path    string
	Lock    string      // its lock file; "" if the name is a hash of the content, so the file is never replaced
	Own     bool        // only gpurun writes to its folder
	Mode    os.FileMode // the most permissive mode that the file may have
	Content []byte
}

// Sum returns the digest that Hold compares content with.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Write puts the copy in place by rename, unless the file already has the same content. It does not
// replace other content while a running attempt holds the file. If c has no lock file, Write never
// replaces other content, because the file was edited by hand and jobs may still be reading it. If
// Write replaced content that gpurun did not write, kept is the name under which that content was
// saved.
func (c *Copy) Write() (kept string, err error) {
	sum, err := host.Digest(context.Background(), c.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", c.put()
	case err != nil:
		return "", fmt.Errorf("cannot read config %q: %w", c.Path, err)
	case sum == Sum(c.Content):
		fi, err := os.Stat(c.Path)
		if err == nil && fi.Mode().Perm()&^c.Mode != 0 { // the job files have since become private
			err = os.Chmod(c.Path, fi.Mode().Perm()&c.Mode)
		}
		return "", err
	case c.Lock == "":
		return "", fmt.Errorf("config %q was changed after gpurun wrote it: save your changes elsewhere, then delete the file", c.Path)
	}
	if !host.Exists(c.Lock) {
		if kept, err = c.keep(); err != nil {
			return "", err
		}
	}
	lock, err := lock(c.Lock, unix.LOCK_EX, 0)
	if held := (*host.HeldError)(nil); errors.As(err, &held) {
		return "", fmt.Errorf("config %q is in use by a running job with other values (%s): start this job after that job ends, or give this job's config another path", c.Path, held.Holder)
	}
	if err != nil {
		return "", fmt.Errorf("cannot lock config %q: %w", c.Path, err)
	}
	defer lock.Close()
	if kept == "" {
		if kept, err = c.keep(); err != nil {
			return "", err
		}
	}
	return kept, c.put()
}

// keep saves the file under another name unless gpurun wrote its content or the content is already
// saved. If there is no lock file, gpurun has never used the path. An empty lock file comes from an
// older version, which recorded no digest. Therefore, keep must run before lock creates the file.
func (c *Copy) keep() (kept string, err error) {
	if c.Own {
		return "", nil
	}
	wrote, err := os.ReadFile(c.Lock)
	if err == nil && len(wrote) == 0 {
		return "", nil
	}
	sum, err := host.Digest(context.Background(), c.Path)
	if err != nil || string(wrote) == sum {
		return "", err
	}
	for n := 1; ; n++ {
		kept = fmt.Sprintf("%s.%d", c.Path, n)
		if other, err := host.Digest(context.Background(), kept); err == nil && other == sum {
			return "", nil
		}
		err := os.Link(c.Path, kept)
		if err != nil && !errors.Is(err, os.ErrExist) { // not all file systems have links
			err = unix.Renameat2(unix.AT_FDCWD, c.Path, unix.AT_FDCWD, kept, unix.RENAME_NOREPLACE)
		}
		switch {
		case err == nil:
			return kept, nil
		case !errors.Is(err, os.ErrExist):
			return "", fmt.Errorf("gpurun did not write config %q and cannot rename it to %s: %w", c.Path, kept, err)
		}
	}
}

func (c *Copy) put() error {
	err := os.MkdirAll(filepath.Dir(c.Path), 0o777)
	if err == nil && c.Lock != "" {
		err = c.record()
	}
	if err == nil {
		err = renameio.WriteFile(c.Path, c.Content, 0o666&c.Mode)
	}
	if err != nil {
		return fmt.Errorf("cannot write config %q: %w", c.Path, err)
	}
	return nil
}

// record saves the digest before the content is written, so that a crash in between loses nothing.
func (c *Copy) record() error {
	f, err := open(c.Lock)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(Sum(c.Content)), 0)
	return errors.Join(err, f.Close())
}

// open opens a lock file, creating it if needed.
func open(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return host.OpenOwn(path, os.O_RDWR|os.O_CREATE, 0o600)
}

// lock opens and locks a lock file.
func lock(path string, how int, limit time.Duration) (*os.File, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := host.Flock(f, how, limit); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Hold keeps the file at path from being replaced until the result is closed. It fails if the
// content does not match sum, which means that another run has replaced the file.
func Hold(path, lockFile, sum string) (held io.Closer, err error) {
	held = io.NopCloser(nil)
	if lockFile != "" {
		if held, err = lock(lockFile, unix.LOCK_SH, holdWait); err != nil {
			return nil, fmt.Errorf("cannot lock config %q: %w", path, err)
		}
	}
	got, err := host.Digest(context.Background(), path)
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
