package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// Kind is the kind of engine for clusters of one dialect.
type Kind struct{ Dialect }

// Abilities reports that the cluster queues attempts and chooses their GPUs.
func (k Kind) Abilities() engine.Abilities {
	return engine.Abilities{Name: k.Name(), Places: true, Queues: true}
}

// Open opens an engine for a batch folder that the nodes see.
func (k Kind) Open(c engine.Config) (engine.Opened, error) {
	cl, err := open(k.Dialect, c)
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Engine: cl, Queue: cl}, nil
}

// Submitted reports whether the attempt in a folder was submitted to a cluster, or was about to
// be submitted.
func Submitted(dir string) bool {
	fi, err := os.Lstat(filepath.Join(dir, wire.StatusFile))
	return err == nil && fi.Size() > wire.StatusSize
}

// Trace reads an attempt's start from its submission.
func (k Kind) Trace(dir, uniID string) (state.Trace, error) {
	s, err := readStatus(dir)
	if err != nil {
		return state.Trace{}, err
	}
	p, ok := s.place()
	if !ok {
		return state.Trace{}, nil
	}
	l, err := p.launch()
	if errors.Is(err, fs.ErrNotExist) { // its submission is over
		return state.Trace{}, nil
	}
	if err != nil || l.UniID != uniID {
		return state.Trace{}, err
	}
	at := time.Now()
	if fi, err := os.Stat(filepath.Join(p.Submit, launchesFile)); err == nil {
		at = fi.ModTime() // when it was submitted
	}
	t := wire.OriginOf(l).Trace(uniID, at)
	t.Start.Engine = p.Engine
	return t, nil
}

// Looker returns a function that reads an attempt's state from its folder.
func (Kind) Looker() func(dir, uniID string) engine.Found {
	return func(dir, uniID string) engine.Found {
		s, _ := readStatus(dir)
		rec, t := s.result(uniID)
		if rec != nil {
			return engine.Found{Ended: &rec.End, Began: !rec.Void}
		}
		f := engine.Found{Began: t != nil}
		if t != nil {
			f.Host = t.Host
		}
		return f
	}
}

// Stray returns 0: without the folder, a node runs nothing.
func (Kind) Stray(string, func(string) bool) (int, string) { return 0, "" }

// install copies this program to a folder that nodes see, unless the user has given the path of a
// gpurun on the nodes.
func install(dir, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer self.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, self); err != nil {
		return "", err
	}
	folder := filepath.Join(dir, "bin", hex.EncodeToString(sum.Sum(nil)[:8]))
	path := filepath.Join(folder, "gpurun")
	if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(folder, "new-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	_, err = self.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(f, self)
	}
	if err = errors.Join(err, f.Chmod(0o755), f.Sync(), f.Close()); err != nil {
		return "", err
	}
	return path, os.Rename(f.Name(), path)
}
