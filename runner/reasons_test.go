package runner

import (
	"reflect"
	"testing"
	"testing/synctest"

	"gpurun/state"
)

func TestReasonsShowPathsAsInJobFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, `
jobs:
  - {name: out, run: x, gpus: 0, outputs: ["ckpt/*.pt"]}
  - {name: in, run: y, gpus: 0, inputs: [data.csv]}
  - {name: far, run: z, gpus: 0, inputs: [/no/where.csv]}
`, "", exits(nil))
		w.run()
		got := map[string]string{}
		for _, f := range w.memory.kinds(state.KindEnd) {
			got[f.Job] = f.Reason
		}
		want := map[string]string{"out": "output ckpt/*.pt missing", "in": "input data.csv matches nothing", "far": "input /no/where.csv matches nothing"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestReportFromSinkDecidesEnd(t *testing.T) {
	for report, want := range map[string]state.Phase{"": state.Succeeded, "normal_exit": state.Succeeded, "abnormal_exit": state.Failed} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0}]\n", "", exits(nil))
			w.Batch.Jobs[0].Spec.Tree = true
			w.Report = func(int, string) (string, string) { return report, "" }
			w.run()
			if got := w.memory.kinds(state.KindEnd)[0].State; got != want {
				t.Errorf("reported %q: got %s, want %s", report, got, want)
			}
		})
	}
}
