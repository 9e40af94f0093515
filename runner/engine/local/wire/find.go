package wire

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// readings is how many times Find tries to read a record that its keeper may be writing.
const readings = 3

// Find returns an attempt's record from its journal or folder. The error is ErrNoRecord if there is
// no valid record, and a different one if that cannot be determined.
func Find(dir, uniID string) (*Record, error) {
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(dir), e.Name())
		for i := 0; i < readings && strings.HasSuffix(e.Name(), state.JournalSuffix); i++ {
			b, err := host.ReadOwn(path, 1<<30)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			n, there := state.Slots(b)[uniID]
			if !there {
				break
			}
			if r, err := RecordIn(b[n*StatusSize:], uniID); err == nil {
				r.Slot = state.Slot{Journal: path, N: n}
				return r, nil
			}
		}
	}
	return inFolder(dir, uniID)
}

// Forbid keeps an attempt's next command from beginning. The keeper records each command before
// it begins, and then checks Forbidden, so the caller can read from the record which commands
// have begun.
func Forbid(dir string) error {
	if fi, err := os.Lstat(dir); err == nil && fi.IsDir() {
		return void(dir)
	}
	f, err := host.OpenOwn(dir+state.VoidSuffix, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// Forbidden reports whether Forbid was called for an attempt.
func Forbidden(dir string) bool {
	_, err := os.Lstat(dir + state.VoidSuffix)
	return !errors.Is(err, fs.ErrNotExist)
}

// Keepers of version 1 kept the record of an attempt in a folder. For each command that began, they
// created a marker, a file that names the command's process. A marker created by a runner prevented
// the command from beginning. Cluster nodes still keep the record in the folder.
const voidMark = "void\n"

func marker(dir string, i int) string {
	if i == 0 {
		return filepath.Join(dir, "begun")
	}
	return filepath.Join(dir, "begun."+strconv.Itoa(i+1))
}

// void creates the next marker.
func void(dir string) (err error) {
	for i := 0; ; i++ {
		var f *os.File
		if f, err = host.OpenOwn(marker(dir, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			_, err = f.WriteString(voidMark)
			return errors.Join(err, f.Close())
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// inFolder returns the record in an attempt's folder.
func inFolder(dir, uniID string) (*Record, error) {
	r, err := ReadRecord(dir, uniID)
	for i := 0; ; i++ {
		b, none := host.ReadOwn(marker(dir, i), 4096)
		if none != nil && !errors.Is(none, fs.ErrNotExist) {
			return nil, none
		}
		if none != nil || string(b) == voidMark {
			return r, err
		}
		if r == nil {
			r, err = &Record{State: StateOpen, UniID: uniID}, nil
		}
		s, _ := host.ParseStat(b) // missing if the keeper was killed while it created the process
		r.Begun, r.Roots = i+1, append(r.Roots, procs.ID{PID: s.PID, Start: s.Start})
		if fi, err := os.Lstat(marker(dir, i)); err == nil {
			r.Latest = fi.ModTime()
		}
	}
}
