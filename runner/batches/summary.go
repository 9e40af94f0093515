package batches

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpurun/state/disk"
	"gpurun/state/host"
)

const (
	summaryName = "summary.txt" // in the state folder of each file of a run
	maxSummary  = 1 << 20
)

// WriteSummary saves the summary of a run that has just ended, below a line with its times and exit
// status.
func WriteSummary(dir string, wall time.Duration, code int, text string) error {
	end := time.Now()
	head := fmt.Sprintf("run from %s to %s, exit status %d", end.Add(-wall).Format(time.DateTime), end.Format(time.DateTime), code)
	return disk.Replace(filepath.Join(dir, summaryName), []byte(head+"\n\n"+text+"\n"))
}

// A summary is a run's end-of-run report, as saved in its state folder.
type summary struct {
	Head string
	Text string
	code int // exit status
}

// readSummary reads the summary of a batch's last run. It ignores a summary that is older than the
// ledger, because a later run was killed, or the user has marked jobs since.
func readSummary(dir string) (k summary, ok bool) {
	path := filepath.Join(dir, summaryName)
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxSummary || disk.Changed(dir).After(fi.ModTime()) {
		return k, false
	}
	b, err := host.ReadOwn(path, maxSummary)
	if err != nil {
		return k, false
	}
	k.Head, k.Text, _ = strings.Cut(string(b), "\n")
	_, code, _ := strings.Cut(k.Head, "exit status ")
	if _, err := fmt.Sscan(code, &k.code); err != nil {
		return k, false
	}
	k.Text = strings.Trim(k.Text, "\n")
	return k, true
}
