package jobspec

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// A config predicted from its base's values has the same key as one that was rendered
// and parsed.
func TestQuickConfigs(t *testing.T) {
	bases := map[string]string{
		"plain.yaml":  "optim: {lr: 0.1}\nlist:\n  - a: 1\n  - a: 2\nseed: 0\ntext: \"x\"\n",
		"anchor.yaml": "optim: &o {lr: 0.1}\nother: *o\nlist: [{a: 1}, {a: 2}]\nseed: 0\ntext: x\n",
		"dotted.yaml": "optim: {lr: 0.1}\noptim.lr: 3\nlist: [{a: 1}, {a: 2}]\nseed: 0\ntext: x\n",
		"json.json":   `{"optim": {"lr": 0.1}, "list": [{"a": 1}, {"a": 2}], "seed": 0, "text": "x"}`,
		"odd.yaml":    "1: {lr: 2}\noptim: {lr: 0.1}\nlist: [{a: 1}, {a: 2}]\nseed:\ntext: |\n  x\n  y\n",
	}
	values := []string{"1e-5", "7", "007", "0.10", "true", "null", "a b", "\"1e-5\"", "\"\"", "2024-01-01", "\": x # y\"", "-1", ".5"}
	sets := []string{`"optim.lr": "{x}"`, `"list.1.a": "{x}"`, `seed: "{x}", text: "{x}"`, `text: "v{x}"`, `"+new": "{x}"`, `"+optim.wd": "{x}"`, `"+far.off": "{x}"`}
	for base, content := range bases {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, base), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		load := func(set, list string) (*Batch, []Problem) {
			path := filepath.Join(dir, "jobs.yaml")
			text := fmt.Sprintf("jobs:\n  - name: j\n    matrix: {x: [%s], n: [1, 2]}\n    run: x\n    config: {base: %s, set: {%s}}\n", list, base, set)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return Load([]string{path}, Options{})
		}
		for _, set := range sets {
			for _, first := range []string{"3", "x y"} {
				for _, value := range values {
					alone, problems := load(set, value)
					both, more := load(set, first+", "+value)
					if (alone == nil) != (both == nil) && len(more) == 0 {
						t.Errorf("%s %s %s: alone %v, after another fine", base, set, value, problems)
					}
					if alone != nil && both != nil && alone.Jobs[0].Key != both.Jobs[2].Key {
						t.Errorf("%s %s %s: after %s its key differs", base, set, value, first)
					}
				}
			}
		}
	}
}

// Thousands of configs do not mean parsing thousands of files.
func TestManyConfigsShareOneReading(t *testing.T) {
	dir := t.TempDir()
	base, jobs := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(base, []byte("# c\noptim: {lr: 0.1}\nseed: 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(jobs, []byte("jobs:\n  - name: j\n    matrix: {s: 0..999}\n    run: x\n    config: {base: c.yaml, set: {seed: \"{s}\"}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := newLoader(Options{})
	l.read(jobs)
	l.settings()
	l.files[0].expandAll()
	if len(l.quick) != 1 || len(l.batch.Jobs) != 1000 {
		t.Fatalf("%d kinds of configs, %d jobs", len(l.quick), len(l.batch.Jobs))
	}
	for _, q := range l.quick {
		if q.base == nil || len(q.leaves) != 1000 {
			t.Errorf("put %d values into the base (%v)", len(q.leaves), q.base)
		}
	}
}

func TestPathsAreThoseOfRender(t *testing.T) {
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
