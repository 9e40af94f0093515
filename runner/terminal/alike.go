package terminal

import (
	"fmt"

	"gpurun/state"
)

// HeldLine describes jobs that are held because jobs like them failed alike.
func HeldLine(h state.Held) string {
	who := CleanText(h.First)
	if h.Jobs > 1 {
		who = fmt.Sprintf("%d jobs like %s", h.Jobs, who)
	}
	on := ""
	if len(h.GPUs) > 0 {
		on = " on " + gpuList(h.GPUs)
	}
	return fmt.Sprintf("holding %s: %d attempts failed alike%s: %s", who, h.Attempts, on, CleanText(h.Cause))
}

// maxAlikeRows bounds the live view's rows for failures that are alike.
const maxAlikeRows = 2

// alikeRows returns the live view's rows for failures that are alike, and for the
// families that are held because of them.
func alikeRows(s *state.Snapshot) []string {
	var rows []string
	told := map[string]bool{}
	for _, h := range s.Held {
		if len(rows) < maxAlikeRows {
			rows = append(rows, HeldLine(h))
			told[h.Cause] = true
		}
	}
	for _, a := range s.Alike {
		if len(rows) < maxAlikeRows && !told[a.Cause] {
			rows = append(rows, a.Head()+": "+CleanText(a.Cause))
		}
	}
	return rows
}
