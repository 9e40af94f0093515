package slurm

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster/clustertest"
)

func TestRealMultiSeed(t *testing.T)        { site.MultiSeed(t) }
func TestRealLateOutput(t *testing.T)       { site.LateOutput(t) }
func TestRealControllerKilled(t *testing.T) { site.ControllerKilled(t) }
func TestRealRunnerKilled(t *testing.T)     { site.RunnerKilled(t) }
func TestRealTwoFiles(t *testing.T)         { site.TwoFiles(t) }
func TestRealControllerGone(t *testing.T)   { site.ControllerGone(t) }
func TestRealGhost(t *testing.T)            { site.Ghost(t) }
func TestRealTakenBack(t *testing.T)        { site.TakenBack(t) }
func TestRealUntold(t *testing.T)           { site.Untold(t) }
func TestRealHangs(t *testing.T)            { site.Hangs(t) }
func TestRealHistory(t *testing.T)          { site.History(t, block, unblock) }
func TestRealPaused(t *testing.T)           { site.Paused(t) }
func TestRealWithdrawn(t *testing.T)        { site.Withdrawn(t) }
func TestRealThrottled(t *testing.T)        { site.Throttled(t) }
func TestRealQuota(t *testing.T)            { site.Quota(t) }
func TestRealQuotaOfRuns(t *testing.T)      { site.QuotaOfRuns(t) }
func TestRealExecEnded(t *testing.T)        { site.ExecEnded(t) }
func TestRealExec(t *testing.T)             { site.Exec(t) }
func TestRealSuspended(t *testing.T)        { site.Suspended(t) }
func TestRealStalled(t *testing.T)          { site.Stalled(t) }
func TestRealLagging(t *testing.T)          { site.Lagging(t) }
func TestRealAllocation(t *testing.T) {
	site.Allocation(t, []string{"sbatch", "--parsable", "-c", "1", "--mem=1G", "--gres=gpu:2"}, []string{"-t", "1", "--signal=B:TERM@45"}, "scancel", "--batch", "--signal=TERM")
}

// It is the last: a controller that crashes soon after it has cancelled them has them back.
func TestRealThousands(t *testing.T) { site.Thousands(t) }

// The test cluster keeps no accounts, but tells of what has ended in the last minute.
func TestRealSweep(t *testing.T) {
	site.Sweep(t, func(b *clustertest.Bench) map[string]clustertest.Told {
		all := map[string]clustertest.Told{}
		for line := range strings.Lines(b.Command("squeue", "-h", "-t", "all", "-O", "ArrayJobID:|,ArrayTaskID:|,StartTime:|,EndTime:|,NodeList:|")) {
			f := strings.Split(line, "|")
			begun, _ := time.ParseInLocation(timeLayout, f[2], time.Local)
			over, _ := time.ParseInLocation(timeLayout, f[3], time.Local)
			all[f[0]+"_"+f[1]] = clustertest.Told{Begun: begun, Over: over, Node: f[4]}
		}
		return all
	})
}
