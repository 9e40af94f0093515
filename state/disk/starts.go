package disk

import (
	"path/filepath"

	"gpurun/state"
)

// Starts looks up the starts of the wanted attempts, by uni_id, in the ledgers of
// files. A History keeps less about attempts that have ended.
func Starts(files []string, o Options, wanted map[string]bool) map[string]state.Fact {
	found := make(map[string]state.Fact, len(wanted))
	for _, f := range files {
		if len(wanted) == 0 {
			break
		}
		r := newReader(filepath.Join(Folder(f, o.StateDir), ledgerName), func(f state.Fact) {
			if f.Kind == state.KindStart && wanted[f.UniID] {
				found[f.UniID] = f
			}
		})
		r.live = true
		_ = r.read() // whoever loaded the history has reported errors already
	}
	return found
}
