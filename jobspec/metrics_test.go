package jobspec

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestMetricsAreMergedWithDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	write := func(metrics string) *Batch {
		t.Helper()
		text := "defaults: {metrics: {acc: 'a (.)', gone: 'g (.)'}}\njobs:\n  - {name: t, run: x, params: {p: 1}, allow: [unused], metrics: " + metrics + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b, problems := load([]string{file}, Options{})
		if b == nil {
			t.Fatal(problemText(problems))
		}
		return b
	}
	b := write(`{gone: null, best: {file: "o/{name}-{uni_id}.csv", at: max val, goal: max, percent: true}, said: {goal: min}, own: {}}`)
	r, err := b.Paths(&b.Jobs[0], Runtime{UniID: "u", Attempt: 1})
	if err != nil || len(r.Metrics) != 4 {
		t.Fatalf("got %v, %v", r.Metrics, err)
	}
	acc, best, said, own := r.Metrics[0], r.Metrics[1], r.Metrics[2], r.Metrics[3]
	if acc.Name != "acc" || acc.Log.String() != "a (.)" || acc.Goal != NoGoal || acc.Percent {
		t.Errorf("got %+v", acc)
	}
	if want := filepath.Join(filepath.Dir(file), "o", "t-u.csv"); best.Path != want || best.Key != "best" || best.At != "val" || !best.AtMax || best.Goal != Max || !best.Percent {
		t.Errorf("got %+v, want the path %s", best, want)
	}
	if said.Goal != Min || said.Sum != "" || own.Sum != "" || acc.Sum == best.Sum || len(acc.Sum) != 8 {
		t.Errorf("got %+v %+v", said, own)
	}
	other := write(`{acc: 'a (..)'}`)
	if other.Jobs[0].Metrics()[0].Sum == acc.Sum {
		t.Error("metrics with different expressions have the same sum")
	}
	if b.Jobs[0].Key != other.Jobs[0].Key {
		t.Error("a change of metrics changes the key")
	}
}

// The suggested fix for a pattern without a group must have a group.
func TestGroupedAddsAGroup(t *testing.T) {
	for text, want := range map[string]string{
		`acc = [0-9.]+`:         `acc = ([0-9.]+)`,
		`acc: -?\d+\.\d+ of 10`: `acc: (-?\d+\.\d+) of 10`,
		`epoch \d+: acc \d+%`:   `epoch \d+: acc (\d+)%`,
		`acc: (?:[0-9]+)$`:      `acc: (?:([0-9]+))$`,
		`best acc `:             `best acc (\S+)`,
		`[a-z]+:`:               `[a-z]+: (\S+)`,
	} {
		if got := grouped(text); got != want || regexp.MustCompile(got).NumSubexp() != 1 {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}
