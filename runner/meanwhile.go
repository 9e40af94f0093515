package runner

import (
	"gpurun/jobspec"
	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
)

// Meanwhile returns the end of an attempt that no run is watching, as the next run
// would record it. id is its job in the batch, or -1; dir is its folder; e is what the
// engine knows of the end.
func Meanwhile(b *jobspec.Batch, id int, a *state.Attempt, dir string, e engine.Ended, now sched.Now) state.Fact {
	at := adopted(b, id, a, dir)
	return sched.EndFact(a, judge(at, e, ""), now)
}

// adopted rebuilds an earlier run's attempt from the ledger and the job file.
func adopted(b *jobspec.Batch, id int, a *state.Attempt, dir string) *attempt {
	at := &attempt{
		job: id, file: a.Ledger, uniID: a.Start.UniID, name: a.Start.Job, dir: dir,
		out: logPart{stdout: a.Start.Log, stderr: a.Start.Log, fromStdout: -1, fromStderr: -1},
	}
	at.grant.UUIDs, at.grant.Indices, at.grant.Memory = a.Start.GPUUUIDs, a.Start.GPUs, a.Start.Memory
	if id < 0 || b == nil {
		return at
	}
	at.grant.Share = b.Jobs[id].Spec.Request.Share
	s := &a.Start
	was := state.Record{UniID: s.UniID, Attempt: s.Attempt, Start: s.Time, Log: s.Log, Inputs: s.Inputs, GPUs: len(s.GPUs)}
	at.evidence = func() sched.Evidence { return files.EvidenceOf(b, &b.Jobs[id], &was) }
	if r, err := b.Render(&b.Jobs[id], jobspec.Runtime{UniID: at.uniID, Attempt: a.Start.Attempt, GPUs: a.Start.GPUs, Log: a.Start.Log}); err == nil {
		at.outputs, at.out.stderr, at.launch.WorkDir = r.Outputs, r.Stderr, r.WorkDir
	}
	return at
}
