// Package codecopy keeps a copy of the code that jobs run in, as it was at one moment, and
// brings what they write there to the work dir: nothing that a job has made is lost with a copy.
//
// A copy has the folders and files of the code. Everything else (ignored and large files, data,
// folders of outputs, what lies beside the root) is a link home, to the original: what a job writes
// there is home at once. What a job declares and makes in the copy is brought home at its end, all
// else that jobs make there once nobody is in the copy. A link takes its place.
package codecopy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A Tree is one copy, which several attempts may be in at once. Whoever holds its lock keeps new
// ones out: the methods that they begin and end with take it.
type Tree struct {
	sync.Mutex

	Root  string `json:"root"`  // what was copied: the repository, or without one the work dir
	Named string `json:"named"` // the work dir as the job file has it
	Work  string `json:"work"`  // and without links
	Dir   string `json:"-"`     // the folder that has the copy under the root's own name, beside links to what is beside the root

	Items map[string]item `json:"items"` // by path below the folder of the root; "." is that
	Bytes int64           `json:"bytes"`
	Files int             `json:"files"`
}

// An item is a part of the copy as it was made.
type item struct {
	Folder   bool   `json:"folder,omitempty"`
	Original bool   `json:"original,omitempty"` // a link home: what a job puts in its place is meant for that
	Sum      string `json:"sum,omitempty"`      // of code: the digest of a file, or where a link leads
}

// Home returns the copy of the root.
func (t *Tree) Home() string { return filepath.Join(t.Dir, filepath.Base(t.Root)) }

// Map returns where a path of the root is in the copy; other paths are as they are.
func (t *Tree) Map(path string) string {
	rel, inside := below(t.Root, t.real(path))
	if _, there := below(t.Home(), path); !inside || there {
		return path
	}
	return filepath.Join(t.Home(), rel)
}

// real returns a path of the work dir without the links that lead to that.
func (t *Tree) real(path string) string {
	if rel, inside := below(t.Named, path); inside {
		return filepath.Join(t.Work, rel)
	}
	return path
}

// Back returns a path of the copy as it is at home, as the job file has that; other paths are as they are.
func (t *Tree) Back(path string) string {
	if rel, inside := below(t.Home(), path); inside {
		path = filepath.Join(t.Root, rel)
	}
	if rel, inside := below(t.Work, path); inside {
		path = filepath.Join(t.Named, rel)
	}
	return path
}

// Unmap returns a text that names paths of the copy as it would be without one.
func (t *Tree) Unmap(text string) string { return strings.ReplaceAll(text, t.Home(), t.Root) }

// below returns path relative to dir, if it is dir or inside.
func below(dir, path string) (rel string, inside bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

func inside(dir, path string) bool {
	_, is := below(dir, path)
	return is
}

// home returns where the link with a text leads, or will from home.
func (t *Tree) home(rel, text string) string {
	if !filepath.IsAbs(text) {
		text = filepath.Join(filepath.Dir(t.original(rel)), text)
	}
	if in, inside := below(t.Dir, text); inside {
		return t.original(in)
	}
	return text
}

// content returns what tells versions of a file or link apart.
func (t *Tree) content(rel, path string) (string, error) {
	if text, err := os.Readlink(path); err == nil {
		return t.home(rel, text), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// original returns where an item of the copy, or what a job has put beside one, belongs.
func (t *Tree) original(rel string) string { return filepath.Join(filepath.Dir(t.Root), rel) }

func (t *Tree) at(rel string) string { return filepath.Join(t.Dir, rel) }

// list is the file that says what a copy consists of. It is beside the copy, whose folder may
// have anything.
func list(dir string) string { return dir + ".json" }

// Load returns the copy in a folder.
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
	if err := json.Unmarshal(data, t); err != nil || t.Root == "" {
		return nil, fmt.Errorf("%s is broken: %v", list(dir), err)
	}
	return t, nil
}

// A TooMuch is what does not fit into a copy.
type TooMuch struct {
	Root, Most string // what was to be copied, and what in it has the most
}

func (e *TooMuch) Error() string {
	return fmt.Sprintf("the code in %s is more than %d files or %d MiB, most of it in %s", e.Root, MaxFiles, MaxBytes>>20, e.Most)
}
