package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// openLog opens a log for appending and creates it with its folders if it is missing. It never
// blocks: a FIFO without a reader is an error.
func openLog(path string) (int, error) {
	if path == "" {
		path = os.DevNull
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return -1, fmt.Errorf("cannot create the folder for log %q: %w", path, err)
		}
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o666)
	}
	if errors.Is(err, unix.ENXIO) {
		return -1, fmt.Errorf("cannot open log %q: no process reads this FIFO", path)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot open log %q: %w", path, err)
	}
	return fd, nil
}

// outputs are an attempt's descriptors. out and err may be the same.
type outputs struct {
	out, err int
}

func openOutputs(stdout, stderr, header string) (outputs, error) {
	o := outputs{out: -1, err: -1}
	var err error
	if o.out, err = openLog(stdout); err != nil {
		return o, err
	}
	o.err = o.out
	if stderr != stdout && stderr != "" {
		if o.err, err = openLog(stderr); err != nil {
			o.err = o.out
			o.close()
			return o, err
		}
	}
	o.say(header)
	if header != "" && o.err != o.out {
		_, _ = unix.Write(o.err, []byte(header)) // a write error is not worth failing for; see say
	}
	// From here on, writes block, as the job expects.
	for _, fd := range slices.Compact([]int{o.out, o.err}) {
		// Of the flags it was opened with, only O_APPEND stays.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND); err != nil {
			o.close()
			return o, fmt.Errorf("cannot open log %q: %w", stdout, err)
		}
	}
	return o, nil
}

// say writes one of gpurun's own lines to the log. A write error is not worth failing for:
// a job may succeed without its log.
func (o outputs) say(s string) {
	if s != "" && o.out >= 0 {
		_, _ = unix.Write(o.out, []byte(s))
	}
}

// inode identifies the log, so that processes writing to it can be recognized.
func (o outputs) inode() (dev, ino uint64) {
	var st unix.Stat_t
	if unix.Fstat(o.out, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, 0
	}
	return st.Dev, st.Ino
}

func (o outputs) close() {
	if o.out < 0 {
		return
	}
	unix.Close(o.out)
	if o.err != o.out {
		unix.Close(o.err)
	}
}
