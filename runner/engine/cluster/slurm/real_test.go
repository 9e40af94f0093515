package slurm

import "testing"

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
func TestRealQuota(t *testing.T)            { site.Quota(t) }
func TestRealQuotaOfRuns(t *testing.T)      { site.QuotaOfRuns(t) }
func TestRealExecEnded(t *testing.T)        { site.ExecEnded(t) }
func TestRealExec(t *testing.T)             { site.Exec(t) }
func TestRealSuspended(t *testing.T)        { site.Suspended(t) }
func TestRealStalled(t *testing.T)          { site.Stalled(t) }
func TestRealLagging(t *testing.T)          { site.Lagging(t) }
func TestRealAllocation(t *testing.T) {
	site.Allocation(t, []string{"sbatch", "--parsable", "-c", "1", "--mem=1G", "--gres=gpu:2"}, []string{"-t", "1", "--signal=B:TERM@45"})
}

// It is the last: a controller that crashes soon after it has cancelled them has them back.
func TestRealThousands(t *testing.T) { site.Thousands(t) }
