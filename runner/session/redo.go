package session

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"gpurun/runner/batches"
)

// confirm lists the successes that would rerun although the user did not ask for that. If they are
// expensive, it asks for confirmation on a terminal, and a detached run refuses to start. It refuses
// jobs that still run under the file's old name.
func (r *Run) confirm() error {
	if err := r.NoneRunning(r.Batch, r.Runs, r.Abandon); err != nil {
		return err
	}
	text, fix, much := r.Reruns(r.Batch, r.State.History(), r.core)
	if text != "" {
		r.Warn(text)
		r.Hint(fix)
	}
	if !much {
		return nil
	}
	if r.Detached != nil && !r.Yes {
		return &batches.Failure{Code: batches.ExitFailed, Text: "nothing was started: with -d, gpurun cannot ask for confirmation", Hint: "pass -y to confirm"}
	}
	if r.Yes || !r.OutTTY || !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Fprint(r.Out, "rerun them? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &batches.Failure{Code: batches.ExitFailed, Text: "nothing was started", Hint: "pass -y to confirm"}
}
