package disk

import (
	"path/filepath"

	"gpurun/state"
)

// Starts looks the starts of some attempts up in the ledgers of files, by uni_id.
// A History keeps less of an attempt that has ended.
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
		_ = r.read() // what cannot be read has been told of by who read it before
	}
	return found
}
