package cli

import (
	"gpurun/runner/batches"
	"gpurun/state/host"
)

// A confined command (gpurun mcp starts it) looks only below some folders. host.Confine holds
// that for whatever is opened; here are the paths that a job file names and that are only
// asked for, and who may have written the file.

// confinedTo is the first argument of a confined command; a list of folders follows.
const confinedTo = "__confined"

// confine keeps this process to the folders at the head of the arguments, up to "--", and
// returns the rest. Its errors are JSON, as somebody's program reads them.
func (a *app) confine(args []string) ([]string, error) {
	var folders []string
	for len(args) > 0 && args[0] != "--" {
		folders, args = append(folders, args[0]), args[1:]
	}
	if len(folders) == 0 || len(args) == 0 {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: confinedTo + " takes folders, then -- and a command"}
	}
	host.Confine(folders)
	a.json = true
	return args[1:], nil
}
