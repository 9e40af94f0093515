package jobspec

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The setting must be the same whether it comes from a file, from the printed file, or from a flag.
func TestClusterSettingSurvivesPrinting(t *testing.T) {
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

// A timeout that is set later must fit into cluster.time.
func TestClusterKeysOfJobSurvivePrinting(t *testing.T) {
	path := writeJobFile(t, "jobs.yaml", `
settings: {engine: slurm, cluster: {account: vision}}
defaults: {cluster: {qos: low}}
jobs:
  - {name: a, run: x, timeout: 1h, cluster: {time: 2h, exclude: [n1, n2], extra: ["--x=1", "--y"]}}
  - {name: b, run: x}
`)
	same := func(b *Batch) {
		for i, want := range []map[string]string{
			{"account": "vision", "qos": "low", "time": "2h", "exclude": "n1,n2", "extra": "--x=1\n--y"}, {"account": "vision", "qos": "low"},
		} {
			if got := b.Jobs[i].Spec.Cluster; !maps.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	b := mustLoad(t, path)
	same(b)
	printed := filepath.Join(filepath.Dir(path), "printed.yaml")
	if err := os.WriteFile(printed, Print(b), 0o666); err != nil {
		t.Fatal(err)
	}
	same(mustLoad(t, printed))
	if _, err := b.Jobs[0].Spec.Change(map[string]string{"timeout": "2h"}); err == nil || !strings.Contains(err.Error(), "cluster.time is 2h, less than timeout (2h) plus grace (10s)") {
		t.Errorf("timeout: 2h: %v", err)
	}
	if _, err := b.Jobs[0].Spec.Change(map[string]string{"timeout": "90m"}); err != nil {
		t.Error(err)
	}
}
