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

// A Runner is the gpurun process that is running a job file.
type Runner struct {
	PID   int // 0 if its lock file does not name it
	Host  string
	Since time.Time
	Here  bool // on this host
	UID   int  // owner of the process; -1 if unknown
}

// Running returns who is running a job file, judging by its lock. A run that is
// stopped, hung or owned by another user is alive. An error means it cannot be
// determined. Of a run that is not alive, a PID means that it died: a run that ends
// erases its name.
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
		return h.runner(path), false, nil
	case err == unix.EWOULDBLOCK: // somebody holds it
	case noLocks(err):
		if h.PID == 0 || h.Host == host.Name() && !h.lives() {
			return Runner{}, false, nil
		}
	default:
		return Runner{}, false, os.NewSyscallError("flock", err)
	}
	return h.runner(path), true, nil
}

// lives is like alive, but h may be this very process.
func (h holder) lives() bool { return h.PID == os.Getpid() || alive(h) }

func (h holder) runner(lock string) Runner {
	r := Runner{PID: h.PID, Host: h.Host, Since: h.Since, UID: -1}
	r.Here = h.Boot == host.BootID() && h.Boot != ""
	of := lock // the runner owns its lock file; other hosts' processes are not visible here
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
