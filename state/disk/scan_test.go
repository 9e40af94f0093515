package disk

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// For every line that scan accepts, encoding/json must give the same fact.
func sameAsJSON(t *testing.T, line []byte) bool {
	t.Helper()
	got, ok := scan(line)
	if !ok {
		return false
	}
	var want state.Fact
	if err := json.Unmarshal(line, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v, %v", line, got, want, err)
	}
	return true
}

// longFacts are the kinds of lines that make up most of a long ledger.
func longFacts() []state.Fact {
	return []state.Fact{
		{Kind: state.KindStart, Time: noon.Add(123 * time.Microsecond), Job: "train-ü", Key: "k", UniID: "20261121t120000-abc", Attempt: 2,
			Params: map[string]string{"seed": "1", "lr": "0.1"}, Commands: []string{"python train.py --seed 1", "true"}, GPUs: []int{0, 3},
			GPUUUIDs: []gpu.UUID{"GPU-1", "GPU-2"}, Log: "/home/u/x.log", Memory: 24 << 30, Needs: "n"},
		{Kind: state.KindRunning, Time: noon, UniID: "u", PID: 77, PIDStart: 1 << 40},
		{Kind: state.KindStop, Time: noon, UniID: "u", Why: state.WhyTimeout},
		{Kind: state.KindEnd, Time: noon, UniID: "u", State: state.Failed, ExitCode: exit(0), Seconds: 12.75, PeakMemory: 5 << 30, ErrorType: "exit", Reason: "r", By: "done"},
		{Kind: state.KindEnd, Time: noon, UniID: "u", State: state.Failed, ExitCode: exit(-1), Signal: "SIGKILL"},
	}
}

func TestScanTakesWhatIsCommon(t *testing.T) {
	for _, f := range longFacts() {
		line, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if !sameAsJSON(t, line) {
			t.Errorf("left to encoding/json: %s", line)
		}
	}
}

func TestScanLeavesWhatIsUnusual(t *testing.T) {
	for _, line := range []string{
		``, `{}`, `[]`, `null`, `{"kind":"end"`, `{"kind":"end"} `, ` {"kind":"end"}`, `{"kind":"end",}`, `{"kind": "end"}`,
		`{"kind":"\u0065nd"}`, `{"Kind":"end"}`, `{"kind":null}`, `{"attempt":01}`, `{"attempt":-0}`, `{"attempt":1e2}`, `{"attempt":}`,
		`{"pid_start":-1}`, `{"attempt":9999999999999999999}`, `{"seconds":1.}`, `{"seconds":.5}`, `{"seconds":-1}`, `{"gpus":[1,]}`,
		`{"gpus":[,1]}`, `{"params":{"a":"b"},"params":{"c":"d"}}`, `{"time":"yesterday"}`, "{\"job\":\"\xff\"}", "{\"job\":\"a\tb\"}", `{"metrics":{}}`,
	} {
		if f, ok := scan([]byte(line)); ok {
			t.Errorf("%s was accepted as %+v", line, f)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, fact := range longFacts() {
		line, err := json.Marshal(fact)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) { sameAsJSON(t, line) })
}
