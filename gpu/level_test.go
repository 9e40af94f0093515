package gpu

import (
	"testing"
	"time"
)

func TestLevelsIgnoreOldReadings(t *testing.T) {
	mine := Process{PID: 1, UID: me, Memory: 3 * GiB, Attempt: "a"}
	tests := []struct {
		name string
		held bool
		look func(r *Reading)
		at   time.Duration // time of the reading
		want Level         // in GiB
	}{
		{"idle", false, func(*Reading) {}, sec(10), Level{Open: true}},
		{"ours", true, func(r *Reading) { with(r, mine); r.Samples = busySamples(sec(10), 90) }, sec(10), Level{Used: 3, Ours: 3, Util: 90, Jobs: 1}},
		{"shared", true, func(r *Reading) { with(r, mine); with(r, bobs(2*GiB)) }, sec(10), Level{Used: 5, Ours: 3, Jobs: 1, Others: true}},
		{"another user's", false, func(r *Reading) { with(r, bobs(2*GiB)) }, sec(10), Level{Used: 2, Others: true}},
		{"process memory unknown", true, func(r *Reading) { p := mine; p.Memory = -1; with(r, p); r.Used = 4 * GiB }, sec(10), Level{Used: 4, Ours: -1, Jobs: 1}},
		{"outdated reading", true, func(r *Reading) { with(r, mine) }, sec(1), Level{Used: -1, Ours: -1, Util: -1, Jobs: 1}},
		{"no answer", false, func(r *Reading) { r.Err = "GPU is lost" }, sec(10), Level{Used: -1, Ours: -1, Util: -1}},
		{"no samples", false, func(r *Reading) { r.Samples = nil }, sec(10), Level{Util: -1, Open: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := anyone()
			rules.Poll = time.Second // so a reading is valid for 15 s
			p := NewPool(some(1, 24*GiB), rules)
			if tt.held {
				p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Indices: []int{0}, Memory: 8 * GiB})
			}
			see(p, tt.at, func(_ int, r *Reading) { tt.look(r) })
			want := tt.want
			want.UUID, want.Name, want.Total = "GPU-0", "NVIDIA A100-SXM4-80GB", 24*GiB
			for _, v := range []*Bytes{&want.Used, &want.Ours} {
				if *v > 0 {
					*v *= GiB
				}
			}
			if got := p.Levels(sec(20))[0]; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
