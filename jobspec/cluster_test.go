package jobspec

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// What is written of a cluster is what it says, on a flag, in a file, and in a file that is printed.
func TestCluster(t *testing.T) {
	for _, tt := range []struct {
		name, file, flag string
		want             map[string]string
	}{
		{"none", "{}", "", nil},
		{"one list", `{partition: "short,long"}`, "partition=short,long", map[string]string{"partition": "short,long"}},
		{"two", "{partition: gpu, account: vision}", "partition=gpu,account=vision", map[string]string{"partition": "gpu", "account": "vision"}},
		{"a list first", `{partition: "short,long", qos: high}`, "partition=short,long,qos=high", map[string]string{"partition": "short,long", "qos": "high"}},
		{"models", `{models: {"a 100": constraint=a100, h100: "gpu:h100"}}`, "", map[string]string{"models.a 100": "constraint=a100", "models.h100": "gpu:h100"}},
		{"one argument", `{extra: ["--mail-type=END,FAIL"]}`, "extra=--mail-type=END,FAIL", map[string]string{"extra": "--mail-type=END,FAIL"}},
		{"arguments", `{partition: gpu, extra: ["--mail-type=END,FAIL", '--comment2="a b"']}`, "", map[string]string{"partition": "gpu", "extra": "--mail-type=END,FAIL\n--comment2=\"a b\""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			same := func(b *Batch, where string) {
				if got := b.Settings.Cluster; !maps.Equal(got, tt.want) {
					t.Errorf("%s: got %q, want %q", where, got, tt.want)
				}
			}
			path := writeJobFile(t, "jobs.yaml", "settings: {engine: slurm, cluster: "+tt.file+"}\njobs: [{name: a, run: x}]\n")
			b := mustLoad(t, path)
			same(b, "file")
			printed := filepath.Join(filepath.Dir(path), "printed.yaml")
			if err := os.WriteFile(printed, Print(b), 0o666); err != nil {
				t.Fatal(err)
			}
			same(mustLoad(t, printed), "printed")
			if tt.flag == "" {
				return
			}
			plain := writeJobFile(t, "plain.yaml", "jobs: [{name: a, run: x}]\n")
			if b, err := Load([]string{plain}, Options{Flags: map[string]string{"cluster": tt.flag}}); err != nil {
				t.Error(err)
			} else {
				same(b, "flag")
			}
		})
	}
}
