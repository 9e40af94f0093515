// Package codecopy keeps a copy of the code that jobs run in, as it was at one moment, and
// brings what they write there to the work dir: nothing that a job has made is lost with a copy.
//
// A copy has the folders and files of the code. Everything else (ignored and large files, data,
// folders of outputs, what lies beside the root) is a link to the original. So a path that a job
// writes to leads to the work dir, or is new in the copy. What is new, or was changed there, is
// moved to where the job would have written it without a copy, and a link takes its place.
package codecopy

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Tree is one copy, which several attempts may use at once. Its methods are safe for
// concurrent use.
type Tree struct {
	mu sync.Mutex

	Root  string `json:"root"`  // what was copied: the repository, or without one the work dir
	Named string `json:"named"` // the work dir as the job file has it
	Work  string `json:"work"`  // and without links
	Dir   string `json:"-"`     // the folder that has the copy under the root's own name, beside links to what is beside the root

	Commit string           `json:"commit,omitempty"`
	Dirty  bool             `json:"dirty,omitempty"`
	Items  map[string]*item `json:"items"` // by path below the folder of the root; "." is that
	Bytes  int64            `json:"bytes"`
	Files  int              `json:"files"`
	Sum    string           `json:"sum"` // of what was copied
}

// An item is a folder or file of the copy.
type item struct {
	Folder   bool      `json:"folder,omitempty"`
	Original bool      `json:"original,omitempty"` // a link to the original: what a job puts there instead is meant for that
	Link     string    `json:"link,omitempty"`     // of a link that belongs to the code
	Size     int64     `json:"size,omitempty"`
	MTime    time.Time `json:"mtime,omitzero"`
}

// same reports whether a file is as it was copied.
func (i *item) same(fi fs.FileInfo) bool {
	return !i.Original && fi.Mode().IsRegular() && fi.Size() == i.Size && fi.ModTime().Equal(i.MTime)
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

// Back returns where a path of the copy is in the root; other paths are as they are.
func (t *Tree) Back(path string) string {
	rel, inside := below(t.Home(), path)
	if !inside {
		return path
	}
	return filepath.Join(t.Root, rel)
}

// Unmap returns a text that names paths of the copy as it would be without one.
func (t *Tree) Unmap(text string) string { return strings.ReplaceAll(text, t.Home(), t.Root) }

// below returns path relative to dir, if it is dir or inside.
func below(dir, path string) (rel string, inside bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// original returns where an item of the copy, or what a job has put beside one, belongs.
func (t *Tree) original(rel string) string { return filepath.Join(filepath.Dir(t.Root), rel) }

func (t *Tree) at(rel string) string { return filepath.Join(t.Dir, rel) }

// list is the file that says what a copy consists of. It is beside the copy, whose folder may
// have anything.
func list(dir string) string { return dir + ".json" }

// Load returns the copy in a folder.
func Load(dir string) (*Tree, error) {
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
