package jobspec

import (
	"os"
	"path/filepath"
	"testing"
)

// Jobs of one family differ only in parameters, however the file spells them.
func TestFamily(t *testing.T) {
	const base = "jobs:\n  - {name: 'a-{x}', run: 'python t.py --x {x}', matrix: {x: [1, b]}}\n"
	for _, test := range []struct {
		name, content string
		same          bool
	}{
		{"another matrix", "jobs:\n  - {name: 'b-{x}', run: 'python t.py --x {x}', matrix: {x: [7]}, gpu_memory: 3GiB, timeout: 1h}\n", true},
		{"another command", "jobs:\n  - {name: a, run: 'python u.py --x {x}', params: {x: 1}}\n", false},
		{"more GPUs", "jobs:\n  - {name: a, run: 'python t.py --x {x}', params: {x: 1}, gpus: 2}\n", false},
		{"another work dir", "jobs:\n  - {name: a, run: 'python t.py --x {x}', params: {x: 1}, work_dir: /}\n", false},
		{"another shell", "jobs:\n  - {name: a, run: 'python t.py --x {x}', params: {x: 1}, shell: [zsh, -c]}\n", false},
	} {
		if got := familiesOf(t, "jobs.yaml", base+test.content[len("jobs:\n"):]); got[0] != got[1] || (got[1] == got[2]) != test.same {
			t.Errorf("%s: families %x, the last the same: want %v", test.name, got, test.same)
		}
	}
}

// If the dialect has no parameters, the values of args and all numbers count as such.
func TestFamilyWithoutParameters(t *testing.T) {
	for name, content := range map[string]string{
		"jobs.yaml": "jobs:\n" +
			"  - {name: a, config: c/x.yaml, algorithm: ours, extra_args: {seed: 42, gamma: 0.1}}\n" +
			"  - {name: b, config: c/y.yaml, algorithm: theirs, extra_args: {seed: 43, gamma: 1e-3}}\n",
		"jobs.txt": "python train.py --seed 1 --lr 0.1\n1,20\n\npython train.py --seed 22 --lr 1e-05\n2,20\n",
	} {
		if got := familiesOf(t, name, content); len(got) != 2 || got[0] != got[1] || got[0] == 0 {
			t.Errorf("%s: families %x", name, got)
		}
	}
	if got := familiesOf(t, "jobs.txt", "python a.py\n1,20\n\npython b.py\n2,20\n"); got[0] == got[1] {
		t.Errorf("two programs have the same family")
	}
}

func familiesOf(t *testing.T, name, content string) (list []uint64) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range []string{"c/x.yaml", "c/y.yaml"} {
		if err := os.MkdirAll(filepath.Join(dir, "c"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte("seed: 1\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, j := range mustLoad(t, path).Jobs {
		list = append(list, j.Spec.Family)
	}
	return list
}
