package state

import "bytes"

// A Slot is the place of an attempt's record in a journal. A run has one journal for the attempts of
// a job file, and so makes no file for each of them. Slots have one size, and are overwritten: a
// record that was made can be replaced on a full disk, too. When the end of an attempt is on disk,
// another one gets its slot.
type Slot struct {
	Journal string // "" for a file of the attempt's own, in its folder: on a cluster each node writes its own
	N       int
}

const (
	// SlotSize is the length of a record.
	SlotSize = 4096
	// JournalSuffix ends the name of a journal.
	JournalSuffix = ".journal"
	// ResultSuffix ends the name of the file that GPURUN_RESULT names, next to an attempt's folder.
	ResultSuffix = ".result"
	// VoidSuffix ends the name of a file that keeps what has not begun of an attempt from beginning.
	VoidSuffix = ".void"
)

// Slots returns the slots of the attempts that a journal names, by uni_id.
func Slots(journal []byte) map[string]int {
	slots := map[string]int{}
	for n := 0; len(journal) > 0; n++ {
		slot := journal[:min(SlotSize, len(journal))]
		journal = journal[len(slot):]
		_, after, _ := bytes.Cut(slot, []byte(`"uni_id":"`))
		if uniID, _, ok := bytes.Cut(after, []byte{'"'}); ok {
			slots[string(uniID)] = n
		}
	}
	return slots
}
