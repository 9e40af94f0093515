package terminal

import (
	"strings"

	"gpurun/state/host"
)

// tailBytes is how many bytes at the end of a log are searched for its last line.
const tailBytes = 4096

// LastLine returns the last non-empty line of the log at path, cleaned, or "".
func LastLine(path string) string {
	// The job file may name anything as a log; a FIFO must not block the view.
	f, fi, err := host.OpenRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, min(fi.Size(), tailBytes))
	n, _ := f.ReadAt(b, fi.Size()-int64(len(b)))
	for rest := string(b[:n]); rest != ""; {
		i := strings.LastIndexByte(rest, '\n')
		if s := Clean(rest[i+1:]); s != "" {
			return s
		}
		rest = rest[:max(i, 0)]
	}
	return ""
}
