package state

// Ran takes over the last run fact of a ledger, from whoever has read it.
func (h *History) Ran(ledger int, f Fact) {
	if f.Kind != KindRun {
		return
	}
	if h.runs == nil {
		h.runs = map[int]Fact{}
	}
	h.runs[ledger] = f
}

// LastRun is the run fact of the last run of a ledger as it was loaded, without a
// kind where there was none.
func (h *History) LastRun(ledger int) Fact { return h.runs[ledger] }
