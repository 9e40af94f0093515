package block

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

func TestBlockConfigMapsToSettings(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       Config // WorkDir is relative to the folder of the job file; "" for the default
		ignored    bool
	}{
		{"all keys", "check_time: 5\nmaximize_resource_utilization: false\nmemory_save_mode: true\ncompete_gpus: [0, 1]\nuse_all_gpus: false\ngpu_left: 1\nmin_gpu: 3\nmax_gpu: 8\nretry_config: {max_retry_before_backoff: 3, backoff_duration: 600}\nwork_dir: null\nlr: 0.1\n",
			Config{Settings: []settings.Given{
				{Name: "poll", Text: "5s", Line: 1}, {Name: "share", Text: "false", Line: 2}, {Name: "pick", Text: "best-fit", Line: 3}, {Name: "gpu_ids", Text: "0,1", Line: 4}, {Name: "reserve", Text: "1", Line: 6}, {Name: "min_gpus", Text: "3", Line: 7}, {Name: "max_gpus", Text: "8", Line: 8}}}, false},
		{"all GPUs", "compete_gpus: [0]\nuse_all_gpus: yes\ncheck_time: 0.5", Config{Settings: []settings.Given{{Name: "poll", Text: "500ms", Line: 3}}}, false},
		{"with native settings", "memory_save_mode: false\nmax_util: 30\ngpu_ids: [1, 2]\n", Config{Settings: []settings.Given{{Name: "pick", Text: "most-free", Line: 1}, {Name: "max_util", Text: "30", Line: 2}, {Name: "gpu_ids", Text: "1,2", Line: 3}}}, false},
		{"another program's", "model: resnet\nmax_util: 3\n", Config{}, true},
		{"empty", "\n", Config{}, true},
		{"a list", "- 1\n", Config{}, true},
		{"work_dir relative", "work_dir: sub\n", Config{WorkDir: "sub", DirKey: "sub"}, false},
		{"work_dir absolute", "work_dir: /data/\n", Config{WorkDir: "/data", DirKey: "/data"}, false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(tt.file), 0o644); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "config.yaml")
		tt.want.DirFrom = path + ":1"
		if tt.want.WorkDir == "" {
			tt.want.WorkDir, tt.want.DirKey, tt.want.DirFrom = "..", "..", "default"
		}
		if !filepath.IsAbs(tt.want.WorkDir) {
			tt.want.WorkDir = filepath.Join(dir, tt.want.WorkDir)
		}
		for i := range tt.want.Settings {
			tt.want.Settings[i].File = path
		}
		got, out := readConfig(t, dir, "")
		job, _ := yaml.Marshal(got.Job)
		if retry := "retry:\n    max: forever\n    backoff_after: \"3\"\n    backoff: 10m\n"; tt.name == "all keys" && string(job) != retry {
			t.Errorf("%s: got the job keys\n%s\nwant\n%s", tt.name, job, retry)
		}
		got.Job, got.File = nil, nil
		if len(out.Problems) > 0 || !reflect.DeepEqual(got, tt.want) || (len(out.Warnings) > 0) != tt.ignored {
			t.Errorf("%s: got %+v, %v\nwant %+v", tt.name, got, out, tt.want)
		}
	}
}

// readConfig reads the config of a block file in dir.
func readConfig(t *testing.T, dir, path string) (Config, *source.Report) {
	t.Helper()
	job := filepath.Join(dir, "command.txt")
	if err := os.WriteFile(job, []byte("ls\n1,20\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := &source.Report{}
	return ReadConfig(source.Read(job, out), path, nil, append(blockJobKeys, vagueKeys...), out), out
}

func TestBlockConfigIsFoundNextToJobFile(t *testing.T) {
	dir := t.TempDir()
	got, out := readConfig(t, dir, "")
	want := Config{WorkDir: filepath.Dir(dir), DirKey: "..", DirFrom: "default"}
	if len(out.Problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("without a config: got %+v, %v, want %+v", got, out.Problems, want)
	}
	if _, out := readConfig(t, dir, filepath.Join(dir, "no.yaml")); len(out.Problems) != 1 {
		t.Errorf("the named config is missing: got %v, want one problem", out.Problems)
	}
	other := filepath.Join(dir, "other.yaml")
	if err := os.WriteFile(other, []byte("max_util: 30\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, out = readConfig(t, dir, other)
	if want := []settings.Given{{Name: "max_util", Text: "30", File: other, Line: 1}}; len(out.Warnings) > 0 || !reflect.DeepEqual(got.Settings, want) {
		t.Errorf("a named config with native settings: got %+v, want %+v", got, want)
	}
}

func TestInvalidBlockConfigIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"misspelled", "gpu_left: 1\nchek_time: 5\n", `unknown key "chek_time"; did you mean "check_time"?`},
		{"both spellings", "poll: 5s\ncheck_time: 5\n", `"check_time" and "poll" (line 1) are the same setting; keep only one`},
		{"text for a number", "check_time: soon\n", `check_time: invalid number of seconds "soon"; try 5`},
		{"NaN", "check_time: .nan\n", `check_time: invalid number of seconds ".nan"; try 5`},
		{"number for a boolean", "memory_save_mode: 2\n", `memory_save_mode: must be true or false, not "2"; write true or false`},
		{"negative", "gpu_left: -1\n", `gpu_left: "-1" is negative; use a whole number`},
		{"too many", "max_gpu: 2000000\n", `max_gpu: "2000000" is too large; use a whole number`},
		{"bad GPU", "compete_gpus: [x y]\n", `compete_gpus: invalid GPU "x y"; try [0, 1]`},
		{"retry", "retry_config: {backof_duration: 1}\n", `unknown key "backof_duration" in retry_config; did you mean "backoff_duration"?`},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(tt.file), 0o644); err != nil {
			t.Fatal(err)
		}
		_, out := readConfig(t, dir, "")
		problems := out.Problems
		if len(problems) != 1 || problems[0].Line == 0 || problems[0].Text+"; "+problems[0].Hint != tt.want {
			t.Errorf("%s: got %v\nwant %s", tt.name, problems, tt.want)
		}
	}
}
