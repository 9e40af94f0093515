package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// socketOf returns the socket that a keeper listens on; ok is false if the process is not a
// keeper. Peer credentials would name the socket's creator, which was the keeper's runner.
func socketOf(pid int) (socket string, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	// Every keeper is started as /proc/self/exe. Reading the command line of another process could
	// block, if that process hangs in the kernel.
	if name, _ := os.ReadFile(dir + "/comm"); string(name) != "exe\n" {
		return "", false
	}
	b, _ := os.ReadFile(dir + "/cmdline")
	args := strings.Split(string(b), "\x00")
	if len(args) < 3 || args[1] != "__keeper" {
		return "", false
	}
	return args[2], true
}

// findKeeper returns the pid of a keeper that fits, or 0.
func findKeeper(fits func(pid int, socket string) bool) int {
	for pid := range procs.Read() {
		if socket, ok := socketOf(pid); ok && fits(pid, socket) {
			return pid
		}
	}
	return 0
}

// ancestor returns the nearest ancestor of a process that satisfies is, or 0.
func ancestor(pid int, is func(pid int) bool) int {
	for range 64 { // no job is nested that deep
		p, ok := procs.One(pid)
		if !ok || p.Parent <= 1 {
			return 0
		}
		if pid = p.Parent; is(pid) {
			return pid
		}
	}
	return 0
}

func isKeeper(pid int) bool {
	_, ok := socketOf(pid)
	return ok
}

// writes reports whether a keeper has a journal open. If the journal is a copy of one that the
// keeper has open, original is the batch folder of the keeper's journal.
func writes(keeper int, journal string) (yes bool, original string) {
	var st, at unix.Stat_t
	if journal == "" || unix.Stat(journal, &st) != nil {
		return false, ""
	}
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(keeper) + "/fd/*")
	for _, f := range files {
		path, err := os.Readlink(f)
		if err != nil || filepath.Base(path) != filepath.Base(journal) || unix.Stat(f, &at) != nil {
			continue
		}
		if at.Ino == st.Ino {
			return true, ""
		}
		original = filepath.Dir(filepath.Dir(path))
	}
	return false, original
}

// writers caches which keepers write each journal.
type writers map[string][]procs.ID

// of returns the pid of a keeper that has a journal open and was started no later than began (in
// CLOCK_BOOTTIME), or 0. If an attempt's keeper was killed, a later keeper may write the same
// journal.
func (w writers) of(journal string, began time.Duration) int {
	if _, known := w[journal]; !known {
		w[journal] = nil
		for pid, p := range procs.Read() {
			uid, ok := host.Owner(pid)
			if !ok || uid != os.Geteuid() || !isKeeper(pid) {
				continue
			}
			if yes, _ := writes(pid, journal); yes {
				w[journal] = append(w[journal], p.ID)
			}
		}
	}
	for _, k := range w[journal] {
		if k.Began() <= began {
			return k.PID
		}
	}
	return 0
}

// keeperLinger is how long a keeper may take to exit once it has nothing left to do.
const keeperLinger = 2 * time.Second

// Stray returns the pid and the folder of a keeper of an earlier run that cannot be asked about its
// jobs. The folder is either dir, removed since the keeper started, or another folder of the same
// job file that was not renamed to dir. The pid is 0 if there is no such keeper.
func (Kind) Stray(dir string, same func(dir string) bool) (pid int, at string) {
	stray := func(pid int, socket string) bool {
		at = filepath.Dir(socket)
		if uid, ok := host.Owner(pid); at != dir && (!ok || uid != os.Geteuid() || !same(at)) {
			return false
		}
		return socket != "" && !host.Exists(filepath.Join(dir, filepath.Base(socket)))
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		pid = findKeeper(stray)
		if pid == 0 || time.Since(began) > keeperLinger {
			return pid, at
		}
	}
}
