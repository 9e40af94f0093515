package disk

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// FuzzDecode checks that decode and encoding/json agree on every line.
func FuzzDecode(f *testing.F) {
	for _, fact := range []state.Fact{
		{Kind: state.KindStart, Time: noon.Add(123 * time.Microsecond), Job: "train-ü", Key: "k", UniID: "20261121t120000-abc", Attempt: 2,
			Params: map[string]string{"seed": "1", "lr": "0.1"}, Commands: []string{"python train.py --seed 1", "true"}, GPUs: []int{0, 3},
			GPUUUIDs: []gpu.UUID{"GPU-1", "GPU-2"}, Log: "/home/u/x.log", Memory: 24 << 30, Needs: "n"},
		{Kind: state.KindRunning, Time: noon, UniID: "u", PID: 77, PIDStart: 1 << 40},
		{Kind: state.KindEnd, Time: noon, UniID: "u", State: state.Failed, ExitCode: exit(-1), Seconds: 12.75, Signal: "SIGKILL", Metrics: map[string]any{"a": []any{1.5, nil}}},
	} {
		line, err := json.Marshal(fact)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	for _, line := range []string{
		``, `{}`, `[]`, `null`, `{"kind":"end"`, `{"kind":"end"} `, ` {"kind":"end"}`, `{"kind":"end",}`, `{"kind": "end"}`, `{"kind":"end"}x`,
		`{"kind":"\u0065nd"}`, `{"Kind":"end"}`, `{"kind":null}`, `{"kind":"end","attempt":01}`, `{"kind":"end","attempt":-0}`, `{"kind":"end","attempt":1e2}`, `{"kind":"end","attempt":}`,
		`{"kind":"end","pid_start":-1}`, `{"kind":"end","attempt":9999999999999999999}`, `{"kind":"end","seconds":1.}`, `{"kind":"end","seconds":.5}`, `{"kind":"end","seconds":-1}`, `{"kind":"end","gpus":[1,]}`,
		`{"kind":"end","gpus":[,1]}`, `{"kind":"end","params":{"a":"b"},"params":{"c":"d"}}`, `{"kind":"end","time":"yesterday"}`, "{\"kind\":\"end\",\"job\":\"\xff\"}", "{\"kind\":\"end\",\"job\":\"a\tb\"}", `{"kind":"end","metrics":{}}`,
		`{"kind":"end","new":{"a":[1,"]}"]},"job":"j"}`, `{"kind":"end","exit_code":null,"gpus":null}`, `{"kind":"end","job":"\ud800x"}`, `{"kind":"end","new":tru}`, `{"kind":"end","new":"\q"}`, `{"kind":"end","git_dirty":"yes"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var got, want state.Fact
		err := decode(line, &got)
		e := json.Unmarshal(line, &want)
		if ok := e == nil && want.Kind != ""; ok != (err == nil) || ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\ngot  %+v, %v\nwant %+v, %v", line, got, err, want, e)
		}
	})
}
