package disk

import (
	"encoding/json"
	"testing"

	"gpurun/state"
	"gpurun/state/jsonline/jsonlinetest"
)

// A line is what encoding/json would write, with every field set and with none.
func TestLineIsJSON(t *testing.T) {
	var full state.Fact
	jsonlinetest.Fill(&full)
	for _, f := range []*state.Fact{{}, &full} {
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := appendFact(nil, f); err != nil || string(got) != string(want) {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}
