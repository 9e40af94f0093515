package disk

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"gpurun/state"
)

// A Success is the last success of a key, with its metrics.
type Success struct {
	UniID     string
	Metrics   map[string]any    // flat: nested metrics have names like test.acc
	Measured  map[string]string // as in the ledger
	Confirmed bool              // recorded as done since
	Doubted   bool              // forgotten, then recorded as done

	Ended          time.Time
	Run            *state.Fact // the run that started it; empty if the ledger lacks that run
	startAt, endAt int64
}

// Successes reads the ledger in a batch's folder. For each key, it returns the last success, even if
// other ends or marks by gpurun done followed. It leaves out successes that were forgotten, unless
// the job was recorded as done after that. It also returns the -p values of the runs. It skips
// broken lines. A missing ledger has no successes.
func Successes(dir string) (last map[string]*Success, given []map[string]string, err error) {
	r := newReader(filepath.Join(dir, ledgerName))
	f, err := r.open()
	if f == nil || err != nil {
		return nil, nil, err
	}
	defer f.Close()
	run, open, forgotten := &state.Fact{}, map[string]*Success{}, map[string]*Success{}
	last = map[string]*Success{}
	err = r.read(f, func(f *state.Fact, at int64) {
		switch f.Kind {
		case state.KindRun:
			fact := *f
			run = &fact
			if !slices.ContainsFunc(given, func(p map[string]string) bool { return maps.Equal(p, f.Params) }) {
				given = append(given, f.Params)
			}
		case state.KindStart:
			open[f.UniID] = &Success{Run: run, startAt: at}
		case state.KindForget:
			if s := last[f.Key]; s != nil {
				forgotten[f.Key] = s
			}
			delete(last, f.Key)
		case state.KindEnd:
			s, started := open[f.UniID]
			delete(open, f.UniID)
			if f.State != state.Succeeded {
				break
			}
			switch {
			case started:
			case f.From != "": // this end includes the data of its start and its run
				fact := *f
				s = &Success{Run: &fact, startAt: at}
			case f.By != "" && last[f.Key] != nil: // gpurun done confirms the last success, which has the metrics
				last[f.Key].Confirmed = true
				return
			case f.By != "" && forgotten[f.Key] != nil: // these metrics may still be right
				last[f.Key] = forgotten[f.Key]
				last[f.Key].Confirmed, last[f.Key].Doubted = true, true
				return
			default:
				s = &Success{Run: run, startAt: -1}
			}
			s.UniID, s.Ended, s.Metrics, s.Measured, s.endAt = f.UniID, f.Time, state.Flat(f.Metrics), f.Measured, at
			last[f.Key] = s
		}
	})
	return last, given, err
}

// Lines returns the lines of a success in the ledger of a batch's folder: its start, whose Kind is
// "" if the ledger lacks it, and its end. A success copied from another ledger has only an end.
func (s *Success) Lines(dir string) (start, end state.Fact) {
	f, err := newReader(filepath.Join(dir, ledgerName)).open()
	if f == nil || err != nil {
		return start, end
	}
	defer f.Close()
	if s.startAt >= 0 {
		start, _ = lineAt(f, s.startAt)
	}
	end, _ = lineAt(f, s.endAt)
	for _, x := range []*state.Fact{&start, &end} {
		if x.UniID != s.UniID { // someone has changed the ledger
			*x = state.Fact{}
		}
	}
	return start, end
}
