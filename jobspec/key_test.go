package jobspec

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func keyOf(t *testing.T, content string) Key {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("lr: 1\nseed: 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	b := mustLoad(t, path)
	return b.Jobs[len(b.Jobs)-1].Key
}

// The key decides which jobs run again. Each case is loaded in its own folder, because the key must not
// depend on the location of the file.
func TestKeyDependsOnlyOnWork(t *testing.T) {
	const base = "jobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}}\n"
	for _, test := range []struct {
		name, content string
		same          bool
	}{
		{"identical", base, true},
		{"renamed", "jobs:\n  - {name: b, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}}\n", true},
		{"after another", "jobs:\n  - {name: z, run: other}\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}}\n", true},
		{"order of params and env", "jobs:\n  - {name: a, run: python t.py, params: {y: 2, x: 1}, env: {B: 2, A: 1}}\n", true},
		{"resources", "jobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}, gpu_memory: 3GiB, timeout: 1h, retry: 3, priority: 9, log: l, queue: q, tags: [t], outputs: [o], notify: $TEAM}\n", true},
		{"through defaults", "defaults: {env: {A: 1}}\njobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {B: 2}}\n", true},
		{"as a matrix", "jobs:\n  - {name: a, run: python t.py, matrix: {x: [1], y: [2]}, env: {A: 1, B: 2}}\n", true},
		{"command", "jobs:\n  - {name: a, run: python t2.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}}\n", false},
		{"parameter", "jobs:\n  - {name: a, run: python t.py, params: {x: 1.0, y: 2}, env: {A: 1, B: 2}}\n", false},
		{"env", "jobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 3}}\n", false},
		{"args", "jobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}, args: {z: 1}}\n", false},
		{"shell", "jobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}, shell: [sh, -c]}\n", false},
		{"work dir", "jobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}, work_dir: sub}\n", false},
		{"work dir of all", "settings: {work_dir: ..}\n" + base, false},
		{"config", "jobs:\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}, config: {base: c.yaml, set: {lr: 3}}}\n", false},
		{"second identical job", "jobs:\n  - {name: z, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}}\n  - {name: a, run: python t.py, params: {x: 1, y: 2}, env: {A: 1, B: 2}}\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := keyOf(t, test.content) == keyOf(t, base); got != test.same {
				t.Errorf("the keys are equal: %t, want %t", got, test.same)
			}
		})
	}
}

// If keys changed, a new version of gpurun would rerun finished work. If this test fails, give the recipe
// a new version, and keep the history recorded under the old version valid.
func TestKeyIsStable(t *testing.T) {
	for content, want := range map[string]string{
		"jobs: [{run: \"true\"}]\n": "a13c4b5c",
		"jobs: [{run: [\"echo {s} {uni_id} {work_dir}\", b], params: {s: 1e-5}, args: {k: v, f: true}, env: {A: \"{gpu}\"}, shell: [sh, -c], work_dir: d, config: {base: ../c.yaml, set: {lr: \"{s}\"}}}]\n": "94cb9919",
	} {
		if got := keyOf(t, content).String()[:8]; got != want {
			t.Errorf("got key %s, want %s, for %s", got, want, content)
		}
	}
}

// Identical jobs are numbered within the file. The numbering is part of the recipe, which no later
// version may change.
func TestIdenticalJobsGetDifferentKeys(t *testing.T) {
	b := mustLoad(t, writeJobFile(t, "jobs.yaml", "jobs:\n- {name: \"a{i}\", matrix: {i: 1..50}, run: x}\n- {name: b, run: x}\n- {name: c, run: x}\n- {name: d, run: x}\n"))
	first := b.Jobs[50].Key
	for n, j := range b.Jobs[51:] {
		sum := sha256.Sum256(binary.AppendUvarint(append([]byte(recipe), first[:]...), uint64(n+1)))
		if want := Key(sum[:16]); j.Key != want {
			t.Errorf("%s has key %s, want %s", j.Name, j.Key, want)
		}
	}
}
