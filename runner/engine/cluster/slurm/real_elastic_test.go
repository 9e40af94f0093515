package slurm

import (
	"testing"
	"time"

	"gpurun/runner/engine/cluster/clustertest"
	"gpurun/state"
)

func TestRealElastic(t *testing.T)      { site.Grows(t) }
func TestRealElasticKills(t *testing.T) { site.GrowsAcrossKills(t) }

// A successor waits although GPUs are free: memory is not.
func TestRealElasticInVain(t *testing.T) {
	site.GrowsInVain(t, "9000MiB", func(b *clustertest.Bench) {
		crowd(b, "-w", "node2", "--mem=8000")
		blocked(b, 1)
	})
}

// A job that hardly uses its GPUs leaves them to somebody who waits, and goes on with its least.
func TestRealElasticShrinks(t *testing.T) {
	if testing.Short() {
		t.Skip("how busy a GPU is counts over a minute")
	}
	b := site.New(t, "settings: {engine: slurm, poll: 1s, cluster: {poll: 1s}}\njobs:"+clustertest.Elastic("a", 1800, 4, clustertest.Saves, ""))
	b.Drive("count=4\nutil.0=10\nutil.1=10\nutil.2=20\nutil.3=0\n")
	cmd, out := b.Start("jobs.yaml")
	b.Until("it has grown", time.Minute, func() bool { return len(b.Facts(state.KindRunning)["a"]) == 2 })
	node := b.Facts(state.KindRunning)["a"][1].Host
	crowd(b, "-w", node, "--gres=gpu:4")
	b.Until("it has shrunk", 3*time.Minute, func() bool { return len(b.Facts(state.KindRunning)["a"]) == 3 })
	blocked(b, 1) // who waited has his turn
	if ends, runs := b.Facts(state.KindEnd)["a"], b.Facts(state.KindRunning)["a"]; ends[1].Reason != "from 4 GPUs to 1" || len(runs[2].GPUs) != 1 || runs[2].Host == node {
		t.Errorf("it ended as %+v and runs as %+v\n%s", ends[1], runs[2], out)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
