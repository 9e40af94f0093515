package disk

import (
	"os"
	"path/filepath"
	"time"
)

// Replace writes a small file atomically: readers see either the old or the new content.
func Replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return cause(err)
	}
	_, err = f.Write(data)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Changed returns when the ledger in a batch's folder last changed.
func Changed(dir string) time.Time {
	fi, err := os.Stat(filepath.Join(dir, ledgerName))
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}
