package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gpurun/state"
	"gpurun/state/host"
)

// maxHashed is the size in bytes of the largest input that is hashed. Larger inputs are compared by
// size and time.
const maxHashed = 64 << 20

// maxListed is the most inputs that the record of a start lists one by one. Beyond that, each
// pattern's matches become one input, so that the record fits in a ledger line.
const maxListed = 100

// Inputs returns the current state of a job's inputs. A folder is a single input, and so is a
// pattern with very many matches. A pattern without a match is an error.
func Inputs(ctx context.Context, patterns []string) ([]state.Input, error) {
	return newSearch().inputs(ctx, patterns)
}

// NoMatch means that an input does not exist.
type NoMatch struct{ Pattern string }

func (e *NoMatch) Error() string { return "input " + e.Pattern + " matches nothing" }

func (s *Search) inputs(ctx context.Context, patterns []string) ([]state.Input, error) {
	var out []state.Input
	for _, p := range patterns {
		paths, err := s.glob(p)
		if err != nil {
			return nil, fmt.Errorf("input %w", err)
		}
		if len(paths) == 0 {
			return nil, &NoMatch{p}
		}
		if len(out)+len(paths) > maxListed {
			in, err := s.sum(ctx, p, paths)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
			continue
		}
		for _, path := range paths {
			in, err := s.content(ctx, path)
			if err != nil {
				return nil, fmt.Errorf("input %w", err)
			}
			out = append(out, in)
		}
	}
	return out, nil
}

// content describes the file or folder at a path, with a hash unless it is too large.
func (s *Search) content(ctx context.Context, path string) (state.Input, error) {
	if in, ok := s.seen[path]; ok {
		return in, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return state.Input{}, err
	}
	in := state.Input{Path: path, Size: info.Size(), MTime: info.ModTime().UTC()}
	switch {
	case info.IsDir():
		in, err = s.folder(ctx, path)
	case info.Mode().IsRegular() && info.Size() <= maxHashed:
		in.Hash, err = host.Digest(ctx, path)
	}
	if err == nil {
		s.seen[path] = in
	}
	return in, err
}

func (s *Search) folder(ctx context.Context, path string) (state.Input, error) {
	var paths []string
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, p)
		}
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
	if err != nil {
		return state.Input{}, err
	}
	return s.sum(ctx, path, paths)
}

// sum combines many files into one input: total size, newest time and, unless there is too much to
// read, a hash of names and contents.
func (s *Search) sum(ctx context.Context, name string, paths []string) (state.Input, error) {
	sum := state.Input{Path: name}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			continue // removed meanwhile, or a dangling link
		}
		sum.Size += info.Size()
		if t := info.ModTime().UTC(); t.After(sum.MTime) {
			sum.MTime = t
		}
	}
	if sum.Size > maxHashed {
		return sum, nil
	}
	h := sha256.New()
	for _, p := range paths {
		rel, err := filepath.Rel(name, p)
		if err != nil || ctx.Err() != nil {
			return state.Input{}, ctx.Err()
		}
		fmt.Fprintf(h, "%d:%s\n", len(rel), rel)
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() {
			continue // only the name counts
		}
		content, err := host.Digest(ctx, p)
		if err != nil {
			return state.Input{}, err
		}
		fmt.Fprintln(h, content)
	}
	sum.Hash = hex.EncodeToString(h.Sum(nil))
	return sum, nil
}

// changed reports whether an input differs from the one recorded at the start. Without a record of
// that name (inputs declared later, or the batch's folder moved), an input has changed only if it
// is newer than the start and no recorded input has the same base name and content.
func changed(now state.Input, before []state.Input, start time.Time) bool {
	newer := now.MTime.After(start)
	for _, b := range before {
		if b.Path == now.Path {
			return now.MTime.After(b.MTime) && !same(now, b)
		}
		if filepath.Base(b.Path) == filepath.Base(now.Path) && same(now, b) {
			newer = false
		}
	}
	return newer
}

// same compares contents: by hash if both have one, else by size and time.
func same(a, b state.Input) bool {
	if a.Hash != "" && b.Hash != "" {
		return a.Hash == b.Hash
	}
	return a.Hash == b.Hash && a.Size == b.Size && a.MTime.Equal(b.MTime)
}
