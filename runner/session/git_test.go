package session

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that git leaves behind with its output open must not delay the start of a run.
func TestLeftoverOfGitDelaysNothing(t *testing.T) {
	for name, row := range map[string]struct{ script, want string }{
		"git ends":  {"sleep 30 & echo abc", "abc"},
		"git hangs": {"sleep 30; echo abc", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := "#!/bin/sh\n" + row.script + "\n"
			if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			ctx, cancel := context.WithTimeout(t.Context(), gitLimit)
			defer cancel()
			began := time.Now()
			if got := gitHead(ctx, dir); got != row.want || time.Since(began) > 20*time.Second {
				t.Errorf("got %q after %v, want %q soon", got, time.Since(began), row.want)
			}
		})
	}
}
