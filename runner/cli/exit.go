package cli

import (
	"errors"

	"gpurun/runner/batches"
)

// codeOf returns the exit status of an error. An error without a status comes from the arguments or
// the machine before anything ran, so its status is ExitUsage.
func codeOf(err error) int {
	var f *batches.Failure
	switch {
	case err == nil:
		return batches.ExitDone
	case errors.As(err, &f):
		return f.Code
	}
	return batches.ExitUsage
}
