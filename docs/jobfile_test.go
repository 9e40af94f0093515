// Package docs_test checks that the documentation matches the program.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpurun/jobspec"
)

// A fence is a fenced code block of a page.
type fence struct{ lang, text string }

func fences(t *testing.T, page string) []fence {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var list []fence
	for _, m := range regexp.MustCompile("(?ms)^( *)```([a-z]+)\n(.*?)^ *```$").FindAllStringSubmatch(string(data), -1) {
		list = append(list, fence{m[2], strings.ReplaceAll("\n"+m[3], "\n"+m[1], "\n")[1:]})
	}
	return list
}

// surroundings are the files that the examples refer to.
var surroundings = map[string]string{
	"configs/a.yaml":    "optim: {lr: 0.1}\nmodel: {depth: 50}\ndata:\n  crops: [196, 128]\n",
	"configs/SVHN.yaml": "seed: 1\n",
	"params.csv":        "dataset,lr,dropout\ncora,0.01,0.5\npubmed,0.005,0.6\n",
	"prepare.yaml":      "jobs:\n  - {name: download, run: x}\n",
}

// complete turns an example, which may be only part of a job file, into a complete one.
func complete(example string) string {
	switch {
	case strings.HasPrefix(example, "jobs:") || strings.Contains(example, "\njobs:"):
		return example
	case strings.HasPrefix(example, "- "):
		return "jobs:\n" + example + "- {name: train-1, run: x}\n"
	case strings.HasPrefix(example, "settings:"):
		return example + "jobs: [{run: x}]\n"
	case !strings.Contains("\n"+example, "\nrun:"):
		example += "run: x\n"
	}
	return "jobs:\n  -\n    " + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n    ") + "\n"
}

// load loads an example from a folder with the files it refers to.
func load(t *testing.T, f fence) *jobspec.Batch {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, content := range surroundings {
		write(name, content)
	}
	var paths []string
	if f.lang == "block" {
		paths = []string{write("command.txt", f.text)}
	} else if paths = []string{write("jobs.yaml", complete(f.text))}; strings.Contains(f.text, "prepare.yaml:") {
		paths = append(paths, filepath.Join(dir, "prepare.yaml"))
	}
	b, problems := jobspec.Load(paths, jobspec.Options{})
	if b == nil {
		t.Fatalf("%s\n%v", f.text, problems)
	}
	if len(b.Warnings) > 0 {
		t.Errorf("%s\n%v", f.text, b.Warnings)
	}
	return b
}

func TestExamplesAreValidJobFiles(t *testing.T) {
	var got []string
	for _, f := range fences(t, "reference/jobfile.md") {
		if f.lang != "yaml" && f.lang != "block" {
			continue
		}
		b := load(t, f)
		names := b.Jobs[0].Name
		if n := len(b.Jobs) - 1; n > 0 {
			names += " … " + b.Jobs[n].Name
		}
		got = append(got, names)
	}
	want := []string{
		"train-cifar10-s42 … aggregate", // a first file
		"job-1 … train-1",               // commands
		"job-1 … train-1",               // conda
		"job-1-cifar10-0-1e-5 … job-1-mnist-0-1e-5",
		"job-1-resnet18-0.1 … job-1-vit-0.001",
		"job-1-cora-0.01-0.5-0 … job-1-pubmed-0.005-0.6-2",
		"job-1-0.0145-0.03017-6-sgd … job-1-0.0001278-0.1017-2-adamw",
		"job-1-ramen-0.1 … job-1-room-0.01",
		"job-1",                             // metrics
		"job-1-0.1-0-1 … job-1-0.01-1e-4-2", // pruning
		"report … download",
		"unpack-0 … train",
		"job-1",           // elastic jobs
		"job-1",           // retries
		"job-1",           // a timeout
		"job-1",           // a job that does nothing
		"job-1",           // notifications
		"train … train-1", // notifications for a job
		"job-1",           // a config file
		"SVHN_a005_ours_seed42",
		"q1-1 … q1-2",
		"legacy", // lint
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// exampleWith returns the first example that contains part.
func exampleWith(t *testing.T, lang, part string) fence {
	t.Helper()
	for _, f := range fences(t, "reference/jobfile.md") {
		if f.lang == lang && strings.Contains(f.text, part) {
			return f
		}
	}
	t.Fatalf("no %s example contains %q", lang, part)
	return fence{}
}

func TestExperimentExampleRunsDocumentedCommand(t *testing.T) {
	b := load(t, exampleWith(t, "yaml", "extra_args"))
	r, err := b.Render(&b.Jobs[0], jobspec.Runtime{UniID: "u", Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(exampleWith(t, "sh", "test.py").text)
	if len(r.Commands) != 1 || r.Commands[0] != want {
		t.Errorf("got %q, want %q", r.Commands, want)
	}
	if got := string(r.Config.Content); got != "seed: 42\n" || !strings.HasSuffix(r.Config.Path, "/configs/temp/SVHN_seed42.yaml") {
		t.Errorf("got %q in %s", got, r.Config.Path)
	}
}

func TestConfigExampleSetsValues(t *testing.T) {
	b := load(t, exampleWith(t, "yaml", "optim.lr"))
	r, err := b.Render(&b.Jobs[0], jobspec.Runtime{UniID: "u", Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := "optim: {lr: 1.0e-05}\nmodel: {depth: 18}\nnote: job-1\ndata:\n  crops: [224, 128]\n"
	if got := string(r.Config.Content); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if name := filepath.Base(r.Config.Path); !regexp.MustCompile(`^\.a\.[0-9a-f]{16}\.gpurun\.yaml$`).MatchString(name) {
		t.Errorf("the config copy is called %s", name)
	}
}

// The settings table must list every setting with its default.
func TestSettingsTableListsDefaults(t *testing.T) {
	page, err := os.ReadFile("reference/jobfile.md")
	if err != nil {
		t.Fatal(err)
	}
	b := load(t, fence{"yaml", "run: x\n"})
	word := regexp.MustCompile("`([^`]*)`")
	for _, s := range b.Settings.Sources {
		row := regexp.MustCompile("(?m)^\\|[^|]*`" + s.Name + "`[^|]*\\|.*\\|([^|]*)\\|$").FindStringSubmatch(string(page))
		if row == nil {
			t.Errorf("the table has no row for %s", s.Name)
			continue
		}
		defaults := word.FindAllStringSubmatch(row[1], -1)
		said := len(defaults) == 0 || s.Value == "no limit"
		for _, d := range defaults {
			said = said || d[1] == s.Value
		}
		if !said {
			t.Errorf("%s: the default is %s, but the page says%s", s.Name, s.Value, row[1])
		}
	}
}
