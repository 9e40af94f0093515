package cli

import (
	"fmt"
	"slices"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/state"
	"gpurun/state/disk"
)

// takeOver records in a batch's ledger what succeeded under another job file.
func (c *doneCmd) takeOver(a *app) error {
	if err := noFiles(c.Jobs); err != nil {
		return err
	}
	refs, err := a.Find(c.File, batches.ToChange)
	if err != nil {
		return err
	}
	ref := refs[0]
	old, err := a.Open(c.From)
	switch {
	case err != nil:
		return err
	case old.Real == ref.Real:
		return &batches.Failure{Code: batches.ExitUsage, Text: "--from " + old.File + " is the batch itself", Hint: "name the new file: gpurun done --from " + old.File + " --file NEW.yaml"}
	case old.Doubt != nil:
		return batches.StateFailure(old.Doubt)
	case old.Alive:
		return &batches.Failure{Code: batches.ExitFailed, Text: fmt.Sprintf("%s is running (process %d): nothing was taken over, or what it runs now would run twice", old.File, old.Runner.PID),
			Hint: "gpurun wait --file " + old.File + " waits for it; then try again"}
	}
	batch, last, err := a.SuccessesOf(old, ref)
	if err != nil {
		return err
	}
	rep, facts, err := c.choose(batch, last, old)
	if err != nil {
		return err
	}
	if err := ref.Record(facts, &rep); err != nil {
		return err
	}
	for _, f := range facts {
		disk.TakeCurve(old.Dir, ref.Dir, f.UniID)
	}
	return a.tell(ref, rep, "taken over from "+old.File, true)
}

// choose returns the successes of the jobs that are meant, under the names that these have now.
func (c *doneCmd) choose(b *jobspec.Batch, last map[string]state.Fact, old *batches.Ref) (rep control.Reply, facts []state.Fact, err error) {
	in := slices.Repeat([]bool{true}, len(b.Jobs))
	if len(c.Jobs) > 0 {
		if in, err = matching(b, c.Jobs); err != nil {
			return rep, nil, err
		}
	}
	for id := range b.Jobs {
		j := &b.Jobs[id]
		f, done := last[j.Key.String()]
		switch {
		case in[id] && done:
			f.Job = j.Name
			facts = append(facts, f)
		case in[id]:
			rep.Keep("no success in "+old.File, j.Name)
		}
	}
	if len(facts) == 0 {
		return rep, nil, &batches.Failure{Code: batches.ExitFailed, Text: fmt.Sprintf("%s: none of these jobs has succeeded in %s: nothing was taken over", b.Files[0].Path, old.File),
			Hint: "jobs are the same if they do the same: same commands, parameters, environment and work dir"}
	}
	return rep, facts, nil
}
