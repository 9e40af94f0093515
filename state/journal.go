package state

import "bytes"

// A Slot is the position of an attempt's record in a journal. A run has one journal for all
// attempts of a job file, so it does not create a file for each attempt. Slots have a fixed size
// and are overwritten in place, so a record can be replaced even on a full disk. Once the end of an
// attempt is on disk, another attempt can use its slot.
type Slot struct {
	Journal string // "" for a file in the attempt's own folder: on a cluster, each node writes its own
	N       int
}

const (
	// SlotSize is the length of a record.
	SlotSize = 4096
	// JournalSuffix is the suffix of a journal's file name.
	JournalSuffix = ".journal"
	// ResultSuffix is the suffix of the file named by GPURUN_RESULT, next to an attempt's folder.
	ResultSuffix = ".result"
	// VoidSuffix is the suffix of a file that keeps an attempt from beginning if it has not begun yet.
	VoidSuffix = ".void"
)

// Slots returns the slots of all attempts in a journal, keyed by uni_id.
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
