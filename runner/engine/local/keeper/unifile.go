package keeper

import (
	"encoding/json"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
)

// States that a script of the block dialect reports for its uni_id (docs/reference/jobfile.md).
const (
	scriptRunning  = "running"
	scriptNormal   = "normal_exit"
	scriptAbnormal = "abnormal_exit"
)

type scriptEntry struct {
	PID   int    `json:"pid"`
	State string `json:"state"`
}

// entry returns the script's entry for this attempt. It returns an empty entry if the file is being
// written, or if its fields have other types.
func (a *attempt) entry() scriptEntry {
	var e scriptEntry
	b, err := os.ReadFile(a.UniFile)
	if err != nil {
		return e
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(b, &all) != nil || json.Unmarshal(all[a.UniID], &e) != nil {
		return scriptEntry{}
	}
	return e
}

// reported returns the process that the script reported as running, if it is alive, this user's,
// and no older than the attempt: an older process merely has the same pid.
func (a *attempt) reported(t procs.Table) []procs.ID {
	if !a.Tree || a.UniFile == "" {
		return nil
	}
	e, first := a.entry(), a.running.Load()
	p, ok := t[e.PID]
	if !ok || first == nil || e.State != scriptRunning || p.Zombie || p.PID == os.Getpid() || p.Start < first.PIDStart {
		return nil
	}
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(p.PID), &st) != nil || int(st.Uid) != os.Getuid() {
		return nil
	}
	return []procs.ID{p.ID}
}

// report returns the end that the script reported, or "".
func (a *attempt) report() string {
	if a.UniFile == "" {
		return ""
	}
	switch e := a.entry(); e.State {
	case scriptNormal, scriptAbnormal:
		return e.State
	}
	return ""
}
