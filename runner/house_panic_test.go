package runner

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// bareGo lists the files that may use bare go statements, with the reason. Elsewhere, goroutines
// must handle panics: an internal error exits with 70, while Go's own status 2 would mean that
// nothing ran.
var bareGo = map[string]string{
	"runner/session/process.go":             "handles panics of the runner",
	"runner/engine/local/keeper/contain.go": "handles panics of a keeper",
	"runner/engine/local/keeper/keeper.go":  "a keeper, which contains most panics",
	"runner/engine/local/keeper/claims.go":  "a keeper",
	"runner/engine/local/keeper/single.go":  "a keeper of one attempt",
	"runner/engine/cluster/task.go":         "a keeper's process on a node",
	"runner/engine/local/remote.go":         "waits for a process and does nothing else",
	"runner/ended.go":                       "reads metrics, and fails alone",
	"gpu/probe/childmain.go":                "the probe process, which is restarted after a crash",
	"gpu/probe/child.go":                    "waits for a process and does nothing else",
	"gpu/claim/reader.go":                   "reads for any process, and fails alone",
	"gpu/hostrules/identities.go":           "looks up groups and does nothing else",
	"state/host/users.go":                   "looks up a name and does nothing else",
}

func TestGoroutinesHandlePanics(t *testing.T) {
	root, used := "..", map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, _ := filepath.Rel(root, path)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			g, ok := n.(*ast.GoStmt)
			if !ok || isPlainStart(g) {
				return true
			}
			if used[name] = true; bareGo[name] == "" {
				t.Errorf("%s starts a goroutine whose panics are not handled", set.Position(g.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range bareGo {
		if !used[name] {
			t.Errorf("%s no longer has a bare go statement: remove it from the list", name)
		}
	}
}

// isPlainStart reports whether g is `go f()`, as in func(f func()) { go f() }, the default way for a
// package to start goroutines.
func isPlainStart(g *ast.GoStmt) bool {
	f, ok := g.Call.Fun.(*ast.Ident)
	return ok && f.Name == "f" && len(g.Call.Args) == 0
}
