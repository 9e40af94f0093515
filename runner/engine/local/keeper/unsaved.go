package keeper

import (
	"errors"
	"fmt"
	"gpurun/runner/engine/local/wire"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Pauses before a record is written again, and how often that is retried while a runner
// waits for the end.
const (
	saveAgain = 100 * time.Millisecond
	saveLater = 5 * time.Second
	saveTries = 3
)

// save overwrites the record with the end, retrying until the disk takes it. A runner
// that waits for the end is told after a few tries, with the reason: its ledger is
// another file.
func (a *attempt) save() (unsaved string) {
	err := a.rec.Put(a.file)
	for tries, pause := 0, saveAgain; err != nil && (tries < saveTries || !a.k.heard()); tries, pause = tries+1, min(2*pause, saveLater) {
		<-time.After(pause)
		err = a.rec.Put(a.file)
	}
	if err == nil {
		return ""
	}
	a.k.saveLater(a.file, a.rec, a.Dir)
	a.file = nil // it has it now
	return fmt.Sprintf("cannot write %s: %v", filepath.Join(a.Dir, wire.StatusFile), err)
}

// saveLater keeps trying until the disk takes the record, or until the runner has
// removed its folder, so that nobody needs it. The keeper stays until then.
func (k *keeper) saveLater(f *os.File, r wire.Record, dir string) {
	k.mu.Lock()
	k.outlasts++
	k.mu.Unlock()
	k.contain("writing a record", func() {
		defer f.Close()
		for r.Put(f) != nil {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				break
			}
			<-time.After(saveLater)
		}
		k.mu.Lock()
		k.outlasts--
		k.mu.Unlock()
		k.checkQuiet()
	})
}
