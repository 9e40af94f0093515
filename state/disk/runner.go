package disk

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// A Runner is the gpurun that runs a job file now.
type Runner struct {
	PID   int // 0 when its lock does not name it
	Host  string
	Since time.Time
	Here  bool // it is on this host
	UID   int  // whose process it is; -1 when unknown
}

// Running reports who runs a job file now, by its lock: a run that is stopped,
// hung or another user's is alive. An error says why nobody can tell.
func Running(jobFile, stateDir string) (r Runner, alive bool, err error) {
	path := filepath.Join(Folder(jobFile, stateDir), lockName)
	f, err := host.OpenOwn(path, os.O_RDONLY, 0)
	if isNotExist(err) {
		return Runner{}, false, nil
	}
	if err != nil {
		return Runner{}, false, err
	}
	defer f.Close()
	h := readHolder(f)
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case err == nil:
		return Runner{}, false, nil
	case err == unix.EWOULDBLOCK: // somebody has it
	case noLocks(err):
		if h.PID == 0 || h.Host == hostname() && !h.lives() {
			return Runner{}, false, nil
		}
	default:
		return Runner{}, false, os.NewSyscallError("flock", err)
	}
	return h.runner(path), true, nil
}

// lives is alive, of a process that may be this one's own.
func (h holder) lives() bool { return h.PID == os.Getpid() || alive(h) }

func (h holder) runner(lock string) Runner {
	r := Runner{PID: h.PID, Host: h.Host, Since: h.Since, UID: -1}
	r.Here = h.Boot == bootID() && h.Boot != ""
	of := lock // a host's processes are seen on that host alone; the lock is the runner's own
	if r.Here && h.PID != 0 {
		of = "/proc/" + strconv.Itoa(h.PID)
	}
	if fi, err := os.Stat(of); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			r.UID = int(st.Uid)
		}
	}
	return r
}
