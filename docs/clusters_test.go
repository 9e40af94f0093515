package docs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpurun/jobspec"
)

// The examples in clusters.md must be valid job files, and its table must list every key of cluster.
func TestClusterPageListsEveryKey(t *testing.T) {
	var jobs []string
	for _, f := range fences(t, "reference/clusters.md") {
		if f.lang == "yaml" {
			for _, j := range load(t, f).Jobs {
				jobs = append(jobs, j.Name)
			}
		}
	}
	if got := strings.Join(jobs, " "); got != "train-0.1 train-0.01 train-0.001 compare job-1" {
		t.Errorf("the examples define the jobs %s", got)
	}
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(path, []byte("settings: {cluster: {quantum: 1}}\njobs: [{run: x}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := jobspec.Load([]string{path}, jobspec.Options{})
	var unknown jobspec.Problem
	if !errors.As(err, &unknown) {
		t.Fatal(err)
	}
	page := text(t, "reference/clusters.md")
	_, keys, _ := strings.Cut(unknown.Hint, "valid keys: ")
	for _, key := range strings.Split(keys, ", ") {
		if !regexp.MustCompile("(?m)^\\| (`[a-z_]+`, )*`" + key + "`").MatchString(page) {
			t.Errorf("the table has no row for %s", key)
		}
	}
}

// gpurun must print every message that clusters.md explains.
func TestClusterPageExplainsPrintedMessages(t *testing.T) {
	code := ""
	err := filepath.WalkDir("../runner", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			code += text(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(text(t, "reference/clusters.md"), "## When something is wrong")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(?:sge|slurm|node1):? ([^`…(]+?)[ :]*(?:\\([^`]*)?…?` \\|").FindAllStringSubmatch(table, -1)
	if len(rows) < 6 {
		t.Errorf("found only %d messages in the table", len(rows))
	}
	for _, m := range rows {
		if !strings.Contains(code, m[1]) && !strings.Contains(m[1], "Invalid license") { // Slurm's own
			t.Errorf("gpurun never prints %q", m[1])
		}
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
