package jobspec

import (
	"os"
	"path/filepath"
	"testing"
)

// A problem in a command must not be reported in the config file, too.
func TestProblemInBlockIsReportedInItsFile(t *testing.T) {
	path := writeJobFile(t, "jobs.txt", "python a.py {config}\n1,20\n")
	config := filepath.Join(filepath.Dir(path), "config.yaml")
	if err := os.WriteFile(config, []byte("timeout: 1h\ncheck_time: 5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, problems := load([]string{path}, Options{})
	if len(problems) != 1 || problems[0].File != path {
		t.Errorf("got %v, want one problem in the block file", problems)
	}
}

// FuzzBlockConfig checks that a block file with any config.yaml gives either jobs or problems, and that
// problems have a file and text.
func FuzzBlockConfig(f *testing.F) {
	f.Add("check_time: 5\nretry_config: {backoff_duration: 600}\ntimeout: 6h\nretries: 2\n")
	f.Add("poll: 5s\nshell: bash\nenv: {A: \"{name}\"}\nlog: \"logs/{name}.log\"\ncpus: 2\n")
	f.Add("gpu_left: 1\nneeds: [a]\nname: x\nstdout: o\nstderr: \"{uni_id}\"\ngpu_model: [a100]\n")
	f.Fuzz(func(t *testing.T, config string) {
		dir := t.TempDir()
		job := filepath.Join(dir, "command.txt")
		for path, content := range map[string]string{job: blockSample, filepath.Join(dir, "config.yaml"): config} {
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, problems := load([]string{job}, Options{})
		if (b == nil) != (len(problems) > 0) {
			t.Fatalf("got a batch: %v, and problems %v", b != nil, problems)
		}
		for _, p := range problems {
			if p.File == "" || p.Text == "" {
				t.Errorf("incomplete problem %+v", p)
			}
		}
	})
}
