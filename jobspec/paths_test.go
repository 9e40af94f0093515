package jobspec

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestPathsMatchesRender(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("seed: 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, log := range []string{"logs/{name}.log", "{config}.log"} {
		path := filepath.Join(dir, "jobs.yaml")
		text := "jobs:\n  - {name: j, run: x, log: \"" + log + "\", outputs: [o/*.pt], inputs: [c.yaml], config: {base: c.yaml, set: {seed: 1}}}\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b := mustLoad(t, path)
		whole, err := b.Render(&b.Jobs[0], Runtime{UniID: "u", Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Paths(&b.Jobs[0], Runtime{UniID: "u", Attempt: 1})
		if err != nil || got.Commands != nil || got.Env != nil {
			t.Fatalf("got %+v, %v", got, err)
		}
		got.Commands, got.Env, got.Config = whole.Commands, whole.Env, whole.Config
		if !reflect.DeepEqual(got, whole) {
			t.Errorf("%s: got %+v, want %+v", log, got, whole)
		}
	}
}
