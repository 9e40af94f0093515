package jobspec

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"unicode/utf8"
)

// Jobs share a template if they differ only in parameters and resources, however the file writes them.
func TestJobsThatDifferInParametersShareATemplate(t *testing.T) {
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
		if got := groupsOf(t, "jobs.yaml", base+test.content[len("jobs:\n"):]); got[0] != got[1] || (got[1] == got[2]) != test.same {
			t.Errorf("%s: got templates %x; want the first two equal, and the last equal: %v", test.name, got, test.same)
		}
	}
}

// In a dialect without parameters, the values of args and all numbers count as parameters.
func TestTemplateIgnoresNumbersWithoutParameters(t *testing.T) {
	for name, content := range map[string]string{
		"jobs.yaml": "jobs:\n" +
			"  - {name: a, config: c/x.yaml, algorithm: ours, extra_args: {seed: 42, gamma: 0.1}}\n" +
			"  - {name: b, config: c/y.yaml, algorithm: theirs, extra_args: {seed: 43, gamma: 1e-3}}\n",
		"jobs.txt": "python train.py --seed 1 --lr 0.1\n1,20\n\npython train.py --seed 22 --lr 1e-05\n2,20\n",
	} {
		if got := groupsOf(t, name, content); len(got) != 2 || got[0] != got[1] || got[0] == 0 {
			t.Errorf("%s: got templates %x, want two equal ones", name, got)
		}
	}
	if got := groupsOf(t, "jobs.txt", "python a.py\n1,20\n\npython b.py\n2,20\n"); got[0] == got[1] {
		t.Error("two programs have the same template")
	}
}

func groupsOf(t *testing.T, name, content string) (list []uint64) {
	t.Helper()
	for _, j := range loadAmongConfigs(t, name, content).Jobs {
		list = append(list, j.Spec.Template)
	}
	return list
}

// loadAmongConfigs loads a job file in a folder with two configs.
func loadAmongConfigs(t *testing.T, name, content string) *Batch {
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
	return mustLoad(t, path)
}

// Jobs that differ only in their seeds are in one group; any other difference separates them.
func TestJobsThatDifferInSeedsShareAGroup(t *testing.T) {
	for _, test := range []struct {
		name, content string
		same          bool
	}{
		{"jobs.yaml", "jobs:\n  - {name: 'a-{x}-{seed}', run: 'python t.py --x {x} --seed {seed}', matrix: {x: [1], seed: [1, 2]}}\n", true},
		{"jobs.yaml", "jobs:\n  - {name: 'a-{x}-{seed}', run: 'python t.py --x {x} --seed {seed}', matrix: {x: [1, 2], seed: [1]}}\n", false},
		{"jobs.yaml", "jobs:\n  - {name: 'a-{data_seed}', run: 'python t.py', args: {lr: 1, s: '{data_seed}'}, params: {out: 'r/{name}'}, matrix: {data_seed: [1, 2]}}\n", true},
		{"jobs.yaml", "jobs:\n  - {name: a, run: 'python t.py', args: {seed: 1}}\n  - {name: b, run: 'python t.py', args: {seed: 2}}\n", true},
		{"jobs.yaml", "jobs:\n  - {name: a, run: 'python t.py', args: {lr: 1}}\n  - {name: b, run: 'python t.py', args: {lr: 2}}\n", false},
		{"jobs.yaml", "jobs:\n  - {name: a, run: 'python t.py --seed=1 --bs 64'}\n  - {name: b, run: 'python t.py --seed=2 --bs 64'}\n", true},
		{"jobs.yaml", "jobs:\n  - {name: a, run: 'python t.py --seed=1 --bs 64'}\n  - {name: b, run: 'python t.py --seed=1 --bs 128'}\n", false},
		{"jobs.yaml", "jobs:\n  - {name: a, config: c/x.yaml, algorithm: ours, extra_args: {seed: 42, gamma: 0.1}}\n  - {name: b, config: c/x.yaml, algorithm: ours, extra_args: {seed: 43, gamma: 0.1}}\n", true},
		{"jobs.yaml", "jobs:\n  - {name: a, config: c/x.yaml, algorithm: ours, extra_args: {seed: 42}}\n  - {name: b, config: c/y.yaml, algorithm: ours, extra_args: {seed: 42}}\n", false},
		{"jobs.txt", "python train.py --seed 1 --lr 0.1\n1,20\n\npython train.py --seed 22 --lr 0.1\n2,20\n", true},
		{"jobs.txt", "python train.py --seed 1 --lr 0.1\n1,20\n\npython train.py --seed 1 --lr 0.2\n2,20\n", false},
	} {
		jobs := loadAmongConfigs(t, test.name, test.content).Jobs
		if a, b := jobs[0].SeedGroup(), jobs[1].SeedGroup(); (a == b) != test.same || a == 0 {
			t.Errorf("%s: got groups %x and %x, want equal: %v", test.content, a, b, test.same)
		}
	}
}

// Ledgers contain the groups, so what counts as a number must not change.
func FuzzWithoutNumbers(f *testing.F) {
	number := regexp.MustCompile(`[0-9](?:\.?[0-9]|[eE][-+]?[0-9])*`)
	for _, s := range []string{"--lr 1e-05 x0.1", "1.", "1..2", "1e", "1e+", "1E+5e3.4", "v1.2.3-4", "é9", "12e.3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := withoutNumbers(s), number.ReplaceAllString(s, "#"); utf8.ValidString(s) && got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	})
}
