package cluster_test

import (
	"slices"
	"testing"
)

// sites are the clusters for all TestReal* tests that do not name one.
var sites = []*Site{&slurmSite, &sgeSite}

// onEach runs a test on each cluster, as TestRealX/ENGINE.
func onEach(t *testing.T, test func(*Site, *testing.T)) {
	for _, s := range sites {
		t.Run(s.Engine, func(t *testing.T) {
			if testing.Short() && slices.Contains(s.Long, t.Name()) {
				t.Skip("takes long there, and another cluster's test shows the same")
			}
			test(s, t)
		})
	}
}

func TestRealMultiSeed(t *testing.T)        { onEach(t, (*Site).MultiSeed) }
func TestRealLateOutput(t *testing.T)       { onEach(t, (*Site).LateOutput) }
func TestRealControllerKilled(t *testing.T) { onEach(t, (*Site).ControllerKilled) }
func TestRealRunnerKilled(t *testing.T)     { onEach(t, (*Site).RunnerKilled) }
func TestRealTwoFiles(t *testing.T)         { onEach(t, (*Site).TwoFiles) }
func TestRealControllerGone(t *testing.T)   { onEach(t, (*Site).ControllerGone) }
func TestRealGhost(t *testing.T)            { onEach(t, (*Site).Ghost) }
func TestRealTakenBack(t *testing.T)        { onEach(t, (*Site).TakenBack) }
func TestRealUntold(t *testing.T)           { onEach(t, (*Site).Untold) }
func TestRealHangs(t *testing.T)            { onEach(t, (*Site).Hangs) }
func TestRealPruned(t *testing.T)           { onEach(t, (*Site).Pruned) }
func TestRealHistory(t *testing.T)          { onEach(t, (*Site).History) }
func TestRealPaused(t *testing.T)           { onEach(t, (*Site).Paused) }
func TestRealWithdrawn(t *testing.T)        { onEach(t, (*Site).Withdrawn) }
func TestRealThrottled(t *testing.T)        { onEach(t, (*Site).Throttled) }
func TestRealQuota(t *testing.T)            { onEach(t, (*Site).Quota) }
func TestRealQuotaOfRuns(t *testing.T)      { onEach(t, (*Site).QuotaOfRuns) }
func TestRealExecEnded(t *testing.T)        { onEach(t, (*Site).ExecEnded) }
func TestRealExec(t *testing.T)             { onEach(t, (*Site).Exec) }
func TestRealSuspended(t *testing.T)        { onEach(t, (*Site).Suspended) }
func TestRealStalled(t *testing.T)          { onEach(t, (*Site).Stalled) }
func TestRealNotShared(t *testing.T)        { onEach(t, (*Site).NotShared) }
func TestRealFolderGone(t *testing.T)       { onEach(t, (*Site).FolderGone) }
func TestRealLateRecord(t *testing.T)       { onEach(t, (*Site).LateRecord) }
func TestRealStates(t *testing.T)           { onEach(t, (*Site).States) }
func TestRealWaiting(t *testing.T)          { onEach(t, (*Site).Waiting) }
func TestRealAllocation(t *testing.T)       { onEach(t, (*Site).Allocation) }
func TestRealSweep(t *testing.T)            { onEach(t, (*Site).Sweep) }

// This must be the last test: a controller that crashes soon after cancelling these tasks restores
// them.
func TestRealThousands(t *testing.T) { onEach(t, (*Site).Thousands) }
