package hostrules

import (
	"testing"
	"time"

	"gpurun/gpu"
)

// No file may make parse panic or yield a value out of bounds.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("hours: [Sat, {when: 20:00-08:00, devices: 3}, {}]\nusers: {a: , \"@b\": {until: 2026-01-01, priority: -1}}")
	f.Add("a: &a [*a]\nhours: {devices: *a, when: x}")
	f.Add("max_gpus_per_user: 99999999999999999999\ncourtesy: 1e9h\nreserve: 0x10\nprompt: |\n  a\n\n  b\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, _, ok := parse("host.yaml", []byte(text), time.UTC)
		if ok != (h.File != "") || h.Reserve < 0 || h.MaxGPUsPerUser < -1 || h.MaxGPUsPerJob < -1 || h.MaxTimeout < 0 || h.Courtesy <= 0 || h.Gather < 0 || h.Patience < 0 {
			t.Errorf("value out of bounds, or file not recorded: ok %v, %+v", ok, h)
		}
		for i := range h.Users {
			h.Users[i].UIDs = []int{1000}
		}
		if u := h.User(1000, time.Now()); u.MaxGPUs < -1 || (u.MaxGPUs < 0) != (u.LimitedBy == "") {
			t.Errorf("inconsistent rules of a user: %+v", u)
		}
		for _, hours := range h.Hours {
			again, err := gpu.ParseHours(hours.Hours.String())
			if now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC); err != nil || again.Open(now) != hours.Hours.Open(now) || !hours.Hours.Open(now) && !hours.Hours.Open(hours.Hours.Opens(now)) {
				t.Errorf("%q is printed or opens inconsistently: %v", hours.Hours, err)
			}
		}
	})
}
