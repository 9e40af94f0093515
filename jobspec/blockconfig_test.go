package jobspec

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestReadBlockConfig(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       blockConfig // WorkDir relative to the folder of the job file
	}{
		{"all keys", "check_time: 5\nmaximize_resource_utilization: false\nmemory_save_mode: true\ncompete_gpus: [0, 1]\nuse_all_gpus: false\ngpu_left: 1\nmin_gpu: 3\nmax_gpu: 8\nretry_config: {max_retry_before_backoff: 3, backoff_duration: 600}\nwork_dir: null\nlr: 0.1\n",
			blockConfig{WorkDir: "..", Retry: &Retry{Max: -1, BackoffAfter: 3, Backoff: 10 * time.Minute}, Settings: []blockSetting{
				{"poll", "5s", 1}, {"share", "false", 2}, {"pick", "best-fit", 3}, {"gpu_ids", "0,1", 4}, {"reserve", "1", 6}, {"min_gpus", "3", 7}, {"max_gpus", "8", 8}}}},
		{"all GPUs", "compete_gpus: [0]\nuse_all_gpus: yes\ncheck_time: 0.5", blockConfig{WorkDir: "..", Settings: []blockSetting{{"poll", "500ms", 3}}}},
		{"native settings beside", "memory_save_mode: false\nmax_util: 30\ngpu_ids: [1, 2]\n", blockConfig{WorkDir: "..", Settings: []blockSetting{{"pick", "most-free", 1}, {"max_util", "30", 2}, {"gpu_ids", "1,2", 3}}}},
		{"another program's", "model: resnet\nmax_util: 3\n", blockConfig{WorkDir: "..", Ignored: true}},
		{"empty", "\n", blockConfig{WorkDir: "..", Ignored: true}},
		{"a list", "- 1\n", blockConfig{WorkDir: "..", Ignored: true}},
		{"work_dir relative", "work_dir: sub\n", blockConfig{WorkDir: "sub", WorkDirLine: 1}},
		{"work_dir absolute", "work_dir: /data/\n", blockConfig{WorkDir: "/data", WorkDirLine: 1}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(tt.file), 0o644); err != nil {
			t.Fatal(err)
		}
		if !filepath.IsAbs(tt.want.WorkDir) {
			tt.want.WorkDir = filepath.Join(dir, tt.want.WorkDir)
		}
		got, problems := readBlockConfig(filepath.Join(dir, "command.txt"), "")
		if len(problems) > 0 || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", tt.name, got, problems, tt.want)
		}
	}
}

func TestReadBlockConfigPlace(t *testing.T) {
	dir := t.TempDir()
	job := filepath.Join(dir, "command.txt")
	got, problems := readBlockConfig(job, "")
	if want := (blockConfig{WorkDir: filepath.Dir(dir)}); len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("without a file: got %+v, %v, want %+v", got, problems, want)
	}
	if _, problems := readBlockConfig(job, filepath.Join(dir, "no.yaml")); len(problems) != 1 {
		t.Errorf("a named file that is missing: got %v", problems)
	}
	other := filepath.Join(dir, "other.yaml")
	if err := os.WriteFile(other, []byte("max_util: 30\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, _ = readBlockConfig(job, other)
	if want := []blockSetting{{"max_util", "30", 1}}; got.Ignored || !reflect.DeepEqual(got.Settings, want) {
		t.Errorf("a named file with native settings: got %+v, want %+v", got, want)
	}
}

func TestReadBlockConfigProblems(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"misspelt", "gpu_left: 1\nchek_time: 5\n", `unknown key "chek_time"; did you mean "check_time"?`},
		{"both words", "poll: 5s\ncheck_time: 5\n", `"check_time" and "poll" (line 1) are the same setting; keep only one`},
		{"no number", "check_time: soon\n", `check_time: invalid number of seconds "soon"; try 5`},
		{"not a number", "check_time: .nan\n", `check_time: invalid number of seconds ".nan"; try 5`},
		{"no bool", "memory_save_mode: 2\n", `memory_save_mode: must be true or false, not "2"; write true or false`},
		{"negative", "gpu_left: -1\n", `gpu_left: invalid number "-1"; use a whole number of at least 0`},
		{"bad GPU", "compete_gpus: [x y]\n", `compete_gpus: invalid GPU "x y"; try [0, 1]`},
		{"retry", "retry_config: {backof_duration: 1}\n", `unknown key "backof_duration" in retry_config; did you mean "backoff_duration"?`},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(tt.file), 0o644); err != nil {
			t.Fatal(err)
		}
		_, problems := readBlockConfig(filepath.Join(dir, "command.txt"), "")
		if len(problems) != 1 || problems[0].Line == 0 || problems[0].Text+"; "+problems[0].Hint != tt.want {
			t.Errorf("%s: got %v\nwant %s", tt.name, problems, tt.want)
		}
	}
}

// Whatever config.yaml contains, a block file gives jobs or problems, and every problem
// has a text.
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
			t.Fatalf("batch %v, problems %v", b != nil, problems)
		}
		for _, p := range problems {
			if p.File == "" || p.Text == "" {
				t.Errorf("problem %+v", p)
			}
		}
	})
}
