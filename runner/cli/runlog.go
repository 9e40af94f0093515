package cli

import "io"

// A forgiving writer hides errors: a full disk under run.log must not flood the
// terminal.
type forgiving struct{ io.Writer }

func (w forgiving) Write(p []byte) (int, error) {
	_, _ = w.Writer.Write(p)
	return len(p), nil
}
