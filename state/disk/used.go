package disk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// A Used is a batch that this user has run. A run of several files adds one for each.
type Used struct {
	File     string    `json:"file"` // with links resolved
	Dir      string    `json:"dir"`  // its state folder
	StateDir string    `json:"state_dir,omitempty"`
	Host     string    `json:"host"`
	Started  time.Time `json:"started"` // when its last run started
}

// The list of a user's batches is only a convenience: nothing depends on it.
const (
	usedName = "batches.jsonl"
	usedWait = 200 * time.Millisecond // maximum wait for another gpurun that is writing the list
	maxUsed  = 16 << 20
)

// Remember adds batches to the list, with the time of their last start.
func Remember(some ...Used) error {
	return changeUsed(func(list []Used) []Used {
		for _, u := range some {
			list = slices.DeleteFunc(list, u.same)
			list = append(list, u)
		}
		return list
	})
}

// Remembered returns the batches that this user has run on this host, last started first.
func Remembered() []Used {
	dir, err := usedFolder()
	if err != nil {
		return nil
	}
	list := readUsed(dir)
	if slices.ContainsFunc(list, gone) {
		_ = changeUsed(func(list []Used) []Used { return list }) // if this fails, the next call retries
	}
	list = slices.DeleteFunc(list, func(u Used) bool { return u.Host != Host().Host || gone(u) })
	slices.SortStableFunc(list, func(a, b Used) int { return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.File, b.File)) })
	return list
}

func (u Used) same(o Used) bool { return u.Dir == o.Dir && u.Host == o.Host }

// gone reports whether the state of a batch on this host was removed. The state of other hosts
// cannot be checked from here.
func gone(u Used) bool {
	_, err := os.Stat(filepath.Join(u.Dir, ledgerName))
	return u.Host == Host().Host && isNotExist(err)
}

// OpenLock opens a lock file of this user by name, without locking it. It is next to the list of
// batches and shared by all hosts with the same home folder.
func OpenLock(name string) (*os.File, error) {
	dir, err := usedFolder()
	if err != nil {
		return nil, fmt.Errorf("cannot use your home folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return host.OpenOwn(filepath.Join(dir, name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
}

// changeUsed replaces the list with the result of change, minus the batches that are gone.
func changeUsed(change func([]Used) []Used) error {
	lock, err := OpenLock("batches")
	if err != nil {
		return err
	}
	defer lock.Close()
	dir := filepath.Dir(lock.Name())
	if err := host.Flock(lock, unix.LOCK_EX, usedWait); err != nil {
		return err
	}
	var text bytes.Buffer
	for _, u := range slices.DeleteFunc(change(readUsed(dir)), gone) {
		line, err := json.Marshal(u)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	return Replace(filepath.Join(dir, usedName), text.Bytes())
}

// readUsed reads the list and skips broken lines.
func readUsed(dir string) (list []Used) {
	b, err := host.ReadOwn(filepath.Join(dir, usedName), maxUsed)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(b) {
		var u Used
		if json.Unmarshal(line, &u) == nil && filepath.IsAbs(u.File) && filepath.IsAbs(u.Dir) {
			list = append(list, u)
		}
	}
	return list
}

// usedFolder returns the folder of the list. It fails if another user owns the home folder, as
// after su or sudo.
func usedFolder() (string, error) {
	home := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(home) {
		user := os.Getenv("HOME")
		var st unix.Stat_t
		if err := unix.Stat(user, &st); err != nil || int(st.Uid) != os.Getuid() {
			return "", cmp.Or(err, error(unix.EPERM))
		}
		home = filepath.Join(user, ".local", "state")
	}
	return filepath.Join(home, "gpurun"), nil
}
