package cli

import (
	"gpurun/runner/batches"
	"gpurun/state/host"
)

// A confined command, which gpurun mcp or gpurun web starts, can access only some folders.
// host.Confine enforces that when files are opened. Code here and in batches also checks who owns the job files, and the
// paths that job files name but that gpurun does not open.

// confinedTo is the first argument of a confined command. A list of folders follows it.
const confinedTo = "__confined"

// confine restricts this process to the folders at the start of the arguments, up to "--", and
// returns the other arguments. It makes the process print errors as JSON, because a program reads
// them.
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
