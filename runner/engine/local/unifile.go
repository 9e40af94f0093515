package local

import (
	"encoding/json"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/procs"
)

// What a script of the block dialect writes for its uni_id (jobfile.md section 4).
const (
	scriptRunning  = "running"
	scriptNormal   = "normal_exit"
	scriptAbnormal = "abnormal_exit"
)

type scriptEntry struct {
	PID   int    `json:"pid"`
	State string `json:"state"`
}

// entry is what the script's file says of this attempt. A file that is being
// written, or whose fields are of other types, says nothing.
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

// reported names the process that the script wrote as running, if it is alive,
// this user's, and no older than the attempt: an older one has the pid by chance.
func (a *attempt) reported(t procs.Table) []procs.ID {
	if !a.Tree || a.UniFile == "" {
		return nil
	}
	e := a.entry()
	p, ok := t[e.PID]
	if !ok || e.State != scriptRunning || p.Zombie || p.PID == os.Getpid() || p.Start < a.rec.Start {
		return nil
	}
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(p.PID), &st) != nil || int(st.Uid) != os.Getuid() {
		return nil
	}
	return []procs.ID{p.ID}
}

// report is the end that the script wrote, or "".
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
