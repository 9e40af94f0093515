package cli

import (
	"gpurun/runner/batches"
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
	if err != nil {
		return err
	}
	rep, err := ref.TakeOver(old, c.Jobs)
	if err != nil {
		return err
	}
	return a.tell(ref, rep, "taken over from "+old.File, true)
}
