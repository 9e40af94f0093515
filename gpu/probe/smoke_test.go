package probe

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestSmokeRealGPU reads the GPUs of this machine (make gpu-smoke) and fails if there are none.
func TestSmokeRealGPU(t *testing.T) {
	if os.Getenv("GPURUN_GPU_SMOKE") != "1" {
		t.Skip("runs with GPURUN_GPU_SMOKE=1, on a machine with a GPU")
	}
	ctx := context.Background()
	began := time.Now()
	p, err := Open(ctx, Options{Library: os.Getenv("GPURUN_NVML"), Log: zerolog.New(zerolog.NewTestWriter(t))})
	if err != nil {
		var m *Missing
		if errors.As(err, &m) {
			t.Fatalf("no GPU here: %s\n%s", m.Text, m.Hint)
		}
		t.Fatalf("cannot open the GPUs: %v", err)
	}
	defer func() { _ = p.Close() }()
	t.Logf("%s, opened in %v", p.Version(), time.Since(began).Round(time.Millisecond))
	for _, d := range p.Devices() {
		t.Logf("device %+v", d)
	}
	for _, q := range []struct {
		name  string
		query Query
	}{{"full", Query{Processes: true}}, {"quick", Query{}}} {
		var spent []time.Duration
		for range 5 {
			began := time.Now()
			snap := p.Read(ctx, q.query)
			spent = append(spent, time.Since(began).Round(time.Microsecond))
			if snap.Err != "" || len(snap.Readings) != len(p.Devices()) {
				t.Errorf("%s reading: %+v", q.name, snap)
			}
			if len(spent) > 1 {
				continue
			}
			for _, r := range snap.Readings {
				n := len(r.Samples)
				r.Samples = r.Samples[max(0, n-3):]
				t.Logf("%s reading, the last of %d samples: %+v", q.name, n, r)
			}
		}
		t.Logf("%s readings took %v", q.name, spent)
	}
}
