package cli

import "io"

// A forgiving writer takes what cannot be written: run.log is no reason to fill a
// person's terminal while the disk is full.
type forgiving struct{ io.Writer }

func (w forgiving) Write(p []byte) (int, error) {
	_, _ = w.Writer.Write(p)
	return len(p), nil
}
