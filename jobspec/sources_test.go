package jobspec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sourceLines returns the named settings with their values and sources.
func sourceLines(b *Batch, names ...string) string {
	var lines []string
	for _, s := range b.Settings.Sources {
		for _, n := range names {
			if s.Name == n {
				lines = append(lines, s.Name+" = "+s.Value+" ("+filepath.Base(s.Source)+")")
			}
		}
	}
	return strings.Join(lines, "; ")
}

func TestSourcesNameWhereSettingsWereSet(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "jobs"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) string {
		path := filepath.Join(dir, "jobs", name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	native := write("a.yaml", "settings: {work_dir: sub}\njobs: [{run: x}]\n")
	list := write("b.yaml", "jobs: [{config: c.yaml, algorithm: ours}]\n")
	blocks := write("c.txt", "x\n1,2\n")
	other := write("other.yaml", "check_time: 5\nwork_dir: deep\n")
	for _, test := range []struct {
		name  string
		files []string
		opts  Options
		want  string
	}{
		{"native", []string{native}, Options{}, "work_dir = sub (a.yaml:1); share = false (default)"},
		{"experiments", []string{list}, Options{}, "work_dir = . (default); share = true for experiments, otherwise false (default)"},
		{"experiments, given", []string{list}, Options{Flags: map[string]string{"share": "false"}}, "work_dir = . (default); share = false (--share)"},
		{"blocks", []string{blocks}, Options{}, "work_dir = .. (default); share = false (default)"},
		{"blocks with a config", []string{blocks}, Options{Config: other}, "work_dir = deep (other.yaml:2); share = false (default)"},
		{"two folders", []string{native, blocks}, Options{}, "work_dir = sub (a.yaml:1); work_dir = .. (default); share = false (default)"},
	} {
		b, problems := load(test.files, test.opts)
		if b == nil {
			t.Errorf("%s: %s", test.name, problemText(problems))
			continue
		}
		if got := sourceLines(b, "work_dir", "share"); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestEmptyUserConfigIsValid(t *testing.T) {
	file := writeJobFile(t, "jobs.yaml", "jobs: [{run: x}]\n")
	for _, content := range []string{"", "\n", "# poll: 9s\n", "---\n"} {
		user := writeJobFile(t, "config.yaml", content)
		if b, problems := load([]string{file}, Options{UserConfig: user}); b == nil {
			t.Errorf("%q: %s", content, problemText(problems))
		}
	}
}

func TestFormatOverridesDetection(t *testing.T) {
	for _, test := range []struct{ name, content, format, want string }{
		{"jobs.txt", "x\n1,2\n", "", "block"},
		{"jobs.yaml", "x\n1,2\n", "", "block"},
		{"jobs", "x\n1,2\n", "", "block"},
		{"jobs.txt", "jobs: [{run: x}]\n", "", "native"},
		{"jobs", "jobs: [{run: x}]\n", "yaml", "native"},
		{"jobs.txt", "jobs: [{run: x}]\n", "block", "is not a job"},
		{"jobs.txt", "x\n1,2\n", "yaml", "a job file starts with"},
		{"jobs.txt", "x\n1,2\n", "blocks", "did you mean \"block\"?"},
		{"jobs.yaml", "x\n", "", "a job file starts with"},
	} {
		b, problems := load([]string{writeJobFile(t, test.name, test.content)}, Options{Format: test.format})
		got := problemText(problems)
		if b != nil {
			got = b.Files[0].Dialect
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s %q --format %q: got %q, want %q", test.name, test.content, test.format, got, test.want)
		}
	}
}
