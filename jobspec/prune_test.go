package jobspec

import (
	"reflect"
	"testing"
)

func TestPruneRulesAndGroups(t *testing.T) {
	b := mustLoad(t, writeJobFile(t, "jobs.yaml", `
defaults:
  metrics: {acc: {log: 'acc=([0-9.]+)', step: 'epoch ([0-9]+)', goal: max}}
  prune: {metric: acc, among: [lr, out], after: 10}
jobs:
  - name: "t-{lr}-{seed}"
    matrix: {lr: [1, 2], seed: [1, 2]}
    params: {out: "ckpt/{lr}"}
    run: python t.py {lr} {seed} {out}
  - name: "u-{lr}"
    matrix: {lr: [1, 2]}
    prune: {keep: 0.5, min: 3, among: lr}
    run: python u.py {lr}
  - {name: eval, run: e, needs: ["t-*", u-1]}
`))
	rule := Prune{Metric: "acc", Goal: Max, Among: []string{"lr", "out"}, After: 10, Keep: 0.7, Min: 5}
	if got := b.Jobs[0].Spec.Prune; !reflect.DeepEqual(got, rule) {
		t.Errorf("got the rule %+v, want %+v", got, rule)
	}
	rule.Keep, rule.Min, rule.Among = 0.5, 3, []string{"lr"}
	if got := b.Jobs[4].Spec.Prune; !reflect.DeepEqual(got, rule) {
		t.Errorf("got the rule %+v, want %+v", got, rule)
	}
	if got := b.Jobs[6].Spec.Prune; got.Metric != "" {
		t.Errorf("a job without the parameters of among has the rule %+v", got)
	}
	groups := make([]uint64, 6) // t-1-1 t-1-2 t-2-1 t-2-2 u-1 u-2
	for i := range groups {
		groups[i] = b.PruneGroup(i)
	}
	if g := groups; g[0] != g[2] || g[1] != g[3] || g[0] == g[1] || g[4] != g[5] || g[0] == g[4] {
		t.Errorf("got groups %x, want t-1-1 with t-2-1, t-1-2 with t-2-2, and u-1 with u-2", g)
	}
	for need, want := range map[int32]bool{0: false, 4: true} {
		if got := b.NeedsByName(6, need); got != want {
			t.Errorf("eval needs %s by name: got %v, want %v", b.Jobs[need].Name, got, want)
		}
	}
}
