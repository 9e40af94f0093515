package slurm

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster/clustertest"
)

func TestRealElastic(t *testing.T)      { site.Grows(t) }
func TestRealElasticKills(t *testing.T) { site.GrowsAcrossKills(t) }

// A successor waits although GPUs are free: memory is not.
func TestRealElasticInVain(t *testing.T) {
	site.GrowsInVain(t, "9000MiB", func(b *clustertest.Bench) {
		b.Command("sbatch", "--parsable", "-o", "/dev/null", "-w", "node2", "--mem=8000", "--wrap", "sleep 600", "-J", "blocker")
		b.Until("the blocker runs", time.Minute, func() bool {
			return strings.Contains(b.Command("squeue", "-h", "-n", "blocker", "-o", "%T"), "RUNNING")
		})
	})
}
