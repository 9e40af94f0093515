package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state/host"
)

// clear removes this user's quarantines of the GPUs in --clear.
func (c *gpusCmd) clear(ctx context.Context, a *app, v *hostView) error {
	_, warnings := v.claims.Others(ctx, nil)
	a.Warn(warnings...)
	all := v.claims.Quarantines()
	for _, name := range c.Clear {
		about := slices.DeleteFunc(slices.Clone(all), func(q gpu.Quarantine) bool { return !refersTo(name, q, v.Devices()) })
		own := slices.DeleteFunc(slices.Clone(about), func(q gpu.Quarantine) bool { return q.UID != host.CurrentUID() })
		if len(own) == 0 {
			return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("you have not quarantined GPU %s", name), Hint: ownersHint(about)}
		}
		for _, q := range own { // one index may mean several MIG instances
			if err := claim.Clear(session.ClaimRoots(v.Prober, ""), q.UUID); err != nil {
				return &batches.Failure{Code: batches.ExitState, Text: fmt.Sprintf("GPU %s is still quarantined: %v", name, err), Err: err}
			}
			fmt.Fprintf(a.out, "ended the quarantine of GPU %s (%s)\n", name, terminal.CleanText(q.Why))
		}
	}
	return nil
}

// refersTo reports whether a GPU name from the user refers to a quarantined GPU. A GPU that does not
// answer is found by its former index.
func refersTo(name string, q gpu.Quarantine, devs []gpu.Device) bool {
	index := q.Index
	if i := slices.IndexFunc(devs, func(d gpu.Device) bool { return d.UUID == q.UUID }); i >= 0 {
		index = devs[i].Index
	}
	return name == strconv.Itoa(index) || name != "" && strings.HasPrefix(string(q.UUID), name)
}

// ownersHint explains that quarantines of other users can be cleared only by their owners.
func ownersHint(some []gpu.Quarantine) string {
	var users []string
	for _, q := range some {
		if q.Ends > host.Boottime() {
			users = append(users, terminal.CleanText(q.User))
		}
	}
	if len(users) == 0 {
		return "gpurun gpus shows all quarantines"
	}
	return "users can end only their own quarantines; those of " + strings.Join(users, ", ") + " do not affect your jobs"
}
