package disk

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpurun/state/host"
)

// tokenSize is the length of a token in bytes.
const tokenSize = 32

// Token returns one of this user's secrets by name, and the path of its file, which is next to the
// list of batches. If there is no such file, Token creates one that only this user can read.
func Token(name string) (token, path string, err error) {
	dir, err := usedFolder()
	if err != nil {
		return "", "", fmt.Errorf("cannot use your home folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, name+".token")
	if err := newToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", path, err
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return "", path, err
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 != 0 {
		return "", path, fmt.Errorf("%s is not a private file (%s): remove it, and the next start creates a new one", path, fi.Mode())
	}
	text, err := host.ReadOwn(path, 1<<10)
	if err != nil {
		return "", path, err
	}
	token = strings.TrimSpace(string(text))
	if b, err := hex.DecodeString(token); err != nil || len(b) != tokenSize {
		return "", path, fmt.Errorf("no token in %s: remove it, and the next start creates a new one", path)
	}
	return token, path, nil
}

// newToken creates a token's file atomically, unless it exists.
func newToken(path string) error {
	fresh := make([]byte, tokenSize)
	if _, err := rand.Read(fresh); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(fresh) + "\n")
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}
