// Package codecopy keeps a copy of the code as it was at one moment, for jobs to run in. It moves
// the files that jobs write there to the work dir, so that removing a copy loses nothing.
//
// A copy has the folders and files of the code. Everything else (ignored and large files, data,
// output folders, siblings of the root) is a link to the original, so writes go straight to the
// work dir. Declared outputs that a job creates in the copy move to the work dir when the job ends,
// other files once no job uses the copy. A link replaces each file that has moved.
package codecopy

import (
	"context"
	"encoding/json"
	"fmt"
	"gpurun/state/host"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A Tree is one copy, which several attempts may share. Holding its lock keeps new attempts out,
// because the methods that begin and end an attempt acquire the lock.
type Tree struct {
	sync.Mutex

	Root  string `json:"root"`  // the folder that was copied: the repository, or the work dir without git
	Named string `json:"named"` // the work dir as written in the job file
	Work  string `json:"work"`  // Named with symlinks resolved
	Dir   string `json:"-"`     // the folder that contains the copy, under the root's name, and links to the root's siblings

	Items map[string]item `json:"items"` // by path relative to the root's parent, which is "."
	Bytes int64           `json:"bytes"`
	Files int             `json:"files"`
}

// An item is an entry of the copy as Take made it.
type item struct {
	Folder   bool   `json:"folder,omitempty"`
	Original bool   `json:"original,omitempty"` // a link to the original: a job that replaces it means to replace the original
	Sum      string `json:"sum,omitempty"`      // of code: a file's digest, or a link's target
}

// Home returns the path of the root in the copy.
func (t *Tree) Home() string { return filepath.Join(t.Dir, filepath.Base(t.Root)) }

// Map returns the path in the copy for a path in the root. It returns other paths unchanged.
func (t *Tree) Map(path string) string {
	rel, inside := host.Below(t.Root, t.real(path))
	if _, there := host.Below(t.Home(), path); !inside || there {
		return path
	}
	return filepath.Join(t.Home(), rel)
}

// real resolves the symlinks that lead to the work dir in a path below it.
func (t *Tree) real(path string) string {
	if rel, inside := host.Below(t.Named, path); inside {
		return filepath.Join(t.Work, rel)
	}
	return path
}

// Back is the inverse of Map: it returns a path in the copy as the job file would spell it.
func (t *Tree) Back(path string) string {
	if rel, inside := host.Below(t.Home(), path); inside {
		path = filepath.Join(t.Root, rel)
	}
	if rel, inside := host.Below(t.Work, path); inside {
		path = filepath.Join(t.Named, rel)
	}
	return path
}

// Unmap replaces the copy's path with the root's in text.
func (t *Tree) Unmap(text string) string { return strings.ReplaceAll(text, t.Home(), t.Root) }

// home returns the target of a link, with paths in the copy replaced by the originals.
func (t *Tree) home(rel, text string) string {
	if !filepath.IsAbs(text) {
		text = filepath.Join(filepath.Dir(t.original(rel)), text)
	}
	if in, inside := host.Below(t.Dir, text); inside {
		return t.original(in)
	}
	return text
}

// content returns a digest of a file, or the target of a link, for comparing versions.
func (t *Tree) content(rel, path string) (string, error) {
	if text, err := os.Readlink(path); err == nil {
		return t.home(rel, text), nil
	}
	return host.Digest(context.Background(), path)
}

// original returns the path of the original for a path in the copy.
func (t *Tree) original(rel string) string { return filepath.Join(filepath.Dir(t.Root), rel) }

func (t *Tree) at(rel string) string { return filepath.Join(t.Dir, rel) }

// list returns the path of the file that lists a copy's items. The file is beside the copy, because
// any name inside the copy may be the name of a code file.
func list(dir string) string { return dir + ".json" }

// Load returns the existing copy in a folder.
func Load(dir string) (*Tree, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(list(dir))
	if err != nil {
		return nil, err
	}
	t := &Tree{Dir: dir}
	if err := json.Unmarshal(data, t); err != nil {
		return nil, fmt.Errorf("%s is broken: %w", list(dir), err)
	} else if t.Root == "" {
		return nil, fmt.Errorf("%s is broken: it does not say which folder was copied", list(dir))
	}
	return t, nil
}

// A TooLarge error means that the code exceeds the limits of a copy.
type TooLarge struct {
	Root, Most string // the folder that was to be copied, and the largest entry in it
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("the code in %s exceeds %d files or %d MiB, mostly in %s", e.Root, MaxFiles, MaxBytes>>20, e.Most)
}
