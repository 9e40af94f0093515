package state

// Ran sets the last run fact of a ledger, as its reader found it.
func (h *History) Ran(ledger int, f Fact) {
	if f.Kind != KindRun {
		return
	}
	if h.runs == nil {
		h.runs = map[int]Fact{}
	}
	h.runs[ledger] = f
}

// LastRun returns the last run fact of a ledger when it was loaded; its Kind is empty
// if there was none.
func (h *History) LastRun(ledger int) Fact { return h.runs[ledger] }
