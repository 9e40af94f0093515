//go:build lagging

package host

import (
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// With -tags lagging, tests see the files of attempts as if through the caches of a network file
// system: files that were read or found missing look unchanged for the time in GPURUN_LAG.
// GPURUN_LAG_DIR is the folder of the cache, one per host. A host sees its own writes immediately.
func init() {
	lag, err := time.ParseDuration(os.Getenv("GPURUN_LAG"))
	dir := os.Getenv("GPURUN_LAG_DIR")
	if err != nil || dir == "" {
		return
	}
	cached := func(path string) string {
		sum := sha256.Sum256([]byte(path))
		return filepath.Join(dir, hex.EncodeToString(sum[:16]))
	}
	wrote = func(path string) { _ = os.Remove(cached(path)) }
	lagging = func(path string, read func() ([]byte, error)) ([]byte, error) {
		if !strings.Contains(path, "/attempts/") {
			return read()
		}
		var c struct {
			At      time.Time
			Content []byte
			Missing bool
		}
		if f, err := os.Open(cached(path)); err == nil {
			err = gob.NewDecoder(f).Decode(&c)
			f.Close()
			if err == nil && time.Since(c.At) < lag {
				if c.Missing {
					return nil, fs.ErrNotExist
				}
				return c.Content, nil
			}
		}
		b, err := read()
		c.At, c.Content, c.Missing = time.Now(), b, errors.Is(err, fs.ErrNotExist)
		if err == nil || c.Missing {
			if f, err := os.CreateTemp(dir, "new-"); err == nil {
				_ = errors.Join(gob.NewEncoder(f).Encode(&c), f.Close(), os.Rename(f.Name(), cached(path)))
			}
		}
		return b, err
	}
}
