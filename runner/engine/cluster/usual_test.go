package cluster_test

import (
	"slices"
	"testing"
)

// sites are the clusters for TestReal* tests that do not depend on the kind of cluster.
var sites = []*Site{&slurmSite, &sgeSite}

// onEach runs a test on each cluster, as TestRealX/ENGINE.
func onEach(t *testing.T, test func(*Site, *testing.T)) {
	for _, s := range sites {
		t.Run(s.Engine, func(t *testing.T) {
			if testing.Short() && slices.Contains(s.Long, t.Name()) {
				t.Skip("takes long on this cluster, and the test on another cluster covers it")
			}
			test(s, t)
		})
	}
}

func TestRealHostAndClusterShareOneLedger(t *testing.T)      { onEach(t, (*Site).MultiSeed) }
func TestRealLateOutputIsAwaited(t *testing.T)               { onEach(t, (*Site).LateOutput) }
func TestRealKilledControllerRunsJobsOnce(t *testing.T)      { onEach(t, (*Site).ControllerKilled) }
func TestRealKilledRunnerFindsItsJobs(t *testing.T)          { onEach(t, (*Site).RunnerKilled) }
func TestRealFilesOfOneRunContinueSeparately(t *testing.T)   { onEach(t, (*Site).TwoFiles) }
func TestRealJobsSurviveMissingController(t *testing.T)      { onEach(t, (*Site).ControllerGone) }
func TestRealJobWithoutStartIsResubmitted(t *testing.T)      { onEach(t, (*Site).Ghost) }
func TestRealWithdrawnTasksLeaveTheCluster(t *testing.T)     { onEach(t, (*Site).TakenBack) }
func TestRealJobWithoutGPUListIsResubmitted(t *testing.T)    { onEach(t, (*Site).Untold) }
func TestRealHangingControllerDoesNotBlockView(t *testing.T) { onEach(t, (*Site).Hangs) }
func TestRealPrunedJobIsCancelled(t *testing.T)              { onEach(t, (*Site).Pruned) }
func TestRealHistoryHasNodeAndQueueTime(t *testing.T)        { onEach(t, (*Site).History) }
func TestRealPauseHoldsWaitingJobs(t *testing.T)             { onEach(t, (*Site).Paused) }
func TestRealJobsThatMustNotStartAreWithdrawn(t *testing.T)  { onEach(t, (*Site).Withdrawn) }
func TestRealThrottleLimitsRunningJobs(t *testing.T)         { onEach(t, (*Site).Throttled) }
func TestRealQuotaCountsOtherJobs(t *testing.T)              { onEach(t, (*Site).Quota) }
func TestRealRunsShareTheQuota(t *testing.T)                 { onEach(t, (*Site).QuotaOfRuns) }
func TestRealExecEndsOnSIGTERM(t *testing.T)                 { onEach(t, (*Site).ExecEnded) }
func TestRealExecRunsOnClusterGPUs(t *testing.T)             { onEach(t, (*Site).Exec) }
func TestRealSuspendedJobContinues(t *testing.T)             { onEach(t, (*Site).Suspended) }
func TestRealStalledControllerRunsJobsOnce(t *testing.T)     { onEach(t, (*Site).Stalled) }
func TestRealUnsharedFolderEndsTheRun(t *testing.T)          { onEach(t, (*Site).NotShared) }
func TestRealJobsEndIfFolderIsRemoved(t *testing.T)          { onEach(t, (*Site).FolderGone) }
func TestRealLateRecordIsAwaited(t *testing.T)               { onEach(t, (*Site).LateRecord) }
func TestRealFatesOfRunningJobs(t *testing.T)                { onEach(t, (*Site).States) }
func TestRealFatesOfWaitingJobs(t *testing.T)                { onEach(t, (*Site).Waiting) }
func TestRealRunStaysWithinItsAllocation(t *testing.T)       { onEach(t, (*Site).Allocation) }
func TestRealSweepAgreesWithAccounting(t *testing.T)         { onEach(t, (*Site).Sweep) }

// This must be the last test: a controller that crashes soon after cancelling these tasks restores
// them.
func TestRealThousandsOfJobsAreCheap(t *testing.T) { onEach(t, (*Site).Thousands) }
