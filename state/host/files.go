package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
)

// Digest returns the SHA-256 of a regular file, in hexadecimal.
func Digest(ctx context.Context, path string) (string, error) {
	f, _, err := OpenRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { f.Close() })()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), cmp.Or(ctx.Err(), err)
}

// Below returns path relative to dir, if path is dir or inside it.
func Below(dir, path string) (rel string, inside bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// Inside reports whether a path is dir or inside it.
func Inside(dir, path string) bool {
	_, is := Below(dir, path)
	return is
}
