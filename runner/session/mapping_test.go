package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/jobspec/settings"
)

func TestCheckEngineReportsUnsupportedKeys(t *testing.T) {
	for _, tt := range []struct {
		settings, job string
		refused       bool
		want          string
	}{
		{"", "run: x, outputs: [o], retry: 2, gpus: 2, memory: 1GiB", false, ""},
		{"", "gpu_ids: 1", true, "a: gpu_ids has no equivalent on slurm"},
		{"", "slots: 2", true, "a: slots has no"},
		{"", "stall: 30m", true, "a: stall has no"},
		{"", "stall: {output: 30m}, on_stall: kill", false, ""},
		{"", "max_util: 50", false, "max_util"},
		{"", "share: true", false, "share"},
		{"", "affinity: true", false, "affinity"},
		{"", "gpus: 1-2", false, "resize and a range of gpus"},
		{"", "gpus: 1-2, resize: true", false, "resize and a range of gpus"},
		{"gpu_ids: 1", "", true, "gpu_ids (jobs.yaml:1) has no"},
		{"reserve: 1", "", true, "reserve"},
		{"min_gpus: 1", "", true, "min_gpus"},
		{"background: true", "", true, "background"},
		{"hours: 20:00-08:00", "", true, "hours"},
		{"slots: 2", "", true, "slots"},
		{"max_util: 50", "", false, "max_util"},
		{"others: avoid", "", false, "others"},
		{"share: true", "", false, "share"},
		{"pick: best-fit", "", false, "pick"},
		{"patience: 5m", "", false, ""},
		{"snapshot: true, max_gpus: 4", "", false, ""},
	} {
		t.Chdir(t.TempDir())
		job := strings.TrimSuffix("name: a, "+tt.job, ", ")
		if !strings.Contains(job, "run:") {
			job += ", run: x"
		}
		text := "settings: {" + strings.TrimSuffix("engine: slurm, "+tt.settings, ", ") + "}\njobs: [{" + job + "}]\n"
		if err := os.WriteFile("jobs.yaml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := jobspec.Load([]string{filepath.Join(".", "jobs.yaml")}, jobspec.Options{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		problems, notes := CheckEngine(b, func(int) bool { return true }, false, false)
		said := strings.Join(notes, "")
		if tt.refused != (len(problems) == 1) {
			t.Errorf("%s: got problems %+v, want refused %v", text, problems, tt.refused)
		} else if tt.refused {
			said = problems[0].Text
		}
		if !strings.Contains(said, tt.want) || tt.want == "" && said != "" {
			t.Errorf("%s: got %q, want %q", text, said, tt.want)
		}
	}
}

func TestClustersPageListsEveryMappedKey(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range settings.Names() {
		if fix, idle := (settings.Setting{Name: name}).OnCluster(); idle || fix != "" {
			names = append(names, name)
		}
	}
	for _, k := range jobspec.JobKeys {
		if k.Note != "" || k.Fix != "" {
			names = append(names, k.Name)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(doc), "`"+name) {
			t.Errorf("%s is missing from clusters.md", name)
		}
	}
}
