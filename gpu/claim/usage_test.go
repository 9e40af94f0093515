package claim

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// The use that concurrent runs record for themselves adds up. Another user's use counts once,
// although each run records it.
func TestUsageAddsUp(t *testing.T) {
	roots := []string{t.TempDir()}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := Account(roots, "host", gpu.Spent{Passed: time.Hour, Own: 10, Others: []gpu.Use{{UID: 4711, Seconds: 3600}}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	sweep(mine(roots[0])[0])
	u := Past(roots, "host")
	if len(u.Users) != 2 || u.Users[0].UID != os.Getuid() || u.Users[0].Days[0] != 80 || u.Users[0].Seconds < 79.9 {
		t.Errorf("own use: got %+v, want 80 GPU seconds", u.Users)
	}
	if s := u.Users[1]; s.UID != 4711 || s.Days[0] < 3599 || s.Days[0] > 3700 {
		t.Errorf("another user's use: got %+v, want an hour", s)
	}
	if other := Past(roots, "GPU-sim-1"); len(other.Users) > 0 {
		t.Errorf("another set of GPUs has %+v, want none", other.Users)
	}
	r := NewReader(roots).Of(nil)
	if _, warnings := r.Others(context.Background()); len(warnings) > 0 || len(r.Usages()) != 1 {
		t.Errorf("reader with Of: got %+v, warnings %q, want one record", r.Usages(), warnings)
	}
	r = NewReader(roots)
	if _, warnings := r.Others(context.Background()); len(warnings) > 0 || len(r.Usages()) != 0 {
		t.Errorf("reader without Of: got %+v, warnings %q, want none", r.Usages(), warnings)
	}
}

// After two days, use is halved twice, and the days since are empty.
func TestUsageIsHalvedEveryDay(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	u := Usage{At: now, Users: []UserUsage{{Use: gpu.Use{UID: 7, Seconds: 400}, Days: []float64{300, 100}}}}
	u.advance(now.Add(48 * time.Hour))
	if x := u.Users[0]; x.Seconds != 100 || len(x.Days) != 4 || x.Days[0] != 0 || x.Days[2] != 300 {
		t.Errorf("after two days: got %+v", x)
	}
	u.advance(now) // the clock was set back
	if x := u.Users[0]; x.Seconds != 100 || len(x.Days) != 4 {
		t.Errorf("after the clock was set back: %+v", x)
	}
	u.advance(now.Add(90 * 24 * time.Hour))
	u.count(gpu.Spent{}, u.At)
	if len(u.Users) != 0 {
		t.Errorf("after 90 days, the user is still there: %+v", u.Users)
	}
}

// Even the largest possible record must be below the size limit of readers.
func TestLargestUsageRecordFits(t *testing.T) {
	now := time.Now()
	u := Usage{Set: "host", At: now}
	for uid := range 2 * maxUsers {
		x := UserUsage{Use: gpu.Use{UID: 1<<31 - uid, Seconds: maxSeconds / 3}}
		for range usageDays {
			x.Days = append(x.Days, 86400.0/7)
		}
		u.Users = append(u.Users, x)
	}
	for range maxDevices {
		u.Idle = append(u.Idle, gpu.Idle{UUID: gpu.UUID(strings.Repeat("x", 41)), Since: 1 << 55, Until: 1 << 56, Busy: 1 << 54})
	}
	u.count(gpu.Spent{Own: 1}, now)
	if body, err := json.Marshal(u); err != nil || len(body) >= maxSize || len(u.Users) != maxUsers || u.Users[0].UID != os.Getuid() {
		t.Errorf("%d bytes (limit %d), %d users (want %d, this one first): %v", len(body), maxSize, len(u.Users), maxUsers, err)
	}
}

// A record with a wrong identity is ignored. Values in other records are bounded.
func TestUsageOfOthersIsBounded(t *testing.T) {
	now, uid := time.Now(), os.Getuid()
	good := Usage{Version: 1, UID: uid, Set: "host", At: now, BootID: host.BootID()}
	tests := []struct {
		name   string
		change func(u *Usage)
		want   string // part of the error
	}{
		{"valid", func(*Usage) {}, ""},
		{"uid of another user", func(u *Usage) { u.UID++ }, "it names uid"},
		{"another set", func(u *Usage) { u.Set = "GPU-sim-1" }, "not a record"},
		{"no version", func(u *Usage) { u.Version = 0 }, "not a record"},
		{"values out of bounds", func(u *Usage) {
			u.Users = []UserUsage{{Use: gpu.Use{UID: 1, Seconds: -5}, Days: []float64{1e300}}}
			u.Idle = []gpu.Idle{{UUID: "GPU-0", Until: host.Boottime() + time.Hour}}
		}, ""},
		{"from an earlier boot", func(u *Usage) { u.BootID, u.Idle = "x", []gpu.Idle{{UUID: "GPU-0", Until: 1}} }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			d, err := ownFolder(root, false)
			if err != nil {
				t.Fatal(err)
			}
			d.Close()
			u := good
			tt.change(&u)
			body, _ := json.Marshal(u)
			if err := os.WriteFile(filepath.Join(d.Name(), "host.usage"), body, 0o644); err != nil {
				t.Fatal(err)
			}
			r := NewReader([]string{root}).Of(nil)
			_, warnings := r.Others(context.Background())
			if text := strings.Join(warnings, "\n"); !strings.Contains(text, tt.want) || (text == "") != (tt.want == "") || (len(r.Usages()) == 1) != (tt.want == "") {
				t.Fatalf("got %+v, %q, want %q", r.Usages(), text, tt.want)
			}
			for _, u := range r.Usages() {
				if len(u.Idle) > 0 || len(u.Users) > 0 && (u.Users[0].Seconds < 0 || u.Users[0].Days[0] > maxSeconds) {
					t.Errorf("value out of bounds: %+v", u)
				}
			}
		})
	}
}
