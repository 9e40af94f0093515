package control

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

const (
	addressName = "control.json"
	maxAddress  = 64 << 10 // bytes to read of an address file
)

// An OtherHostError reports that the run is on another host, which shares the folder but
// which no socket reaches.
type OtherHostError struct {
	Host string
	PID  int
}

func (e *OtherHostError) Error() string {
	return fmt.Sprintf("it is on %s, process %d: run this command there", e.Host, e.PID)
}

// An address tells where a run listens. It lies next to the socket, locked while the run
// is alive: several hosts may share the folder, or its file system may not support
// sockets.
type address struct {
	Host   string `json:"host"`
	Boot   string `json:"boot_id"`
	PID    int    `json:"pid"`
	Socket string `json:"socket,omitempty"` // "" for the one in the folder
}

// here returns the address of this process.
func here(socket string) address {
	return address{Host: host.Name(), Boot: host.BootID(), PID: os.Getpid(), Socket: socket}
}

// publish writes the address to a batch folder. The returned file holds its lock.
func (a address) publish(dir string) (*os.File, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, addressName)
	f, err := host.OpenOwn(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // without the lock others must assume that the run is alive
	if _, err = f.Write(append(b, '\n')); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path+".new"))
	}
	return f, nil
}

// findRun returns the address of the run of a batch folder; if it is missing or broken,
// that of the folder's own socket. It returns ErrNoRun or an OtherHostError if the run
// cannot be reached. The same boot means the same kernel, even from a container of
// another name; the same name with another boot is a run that died with its machine.
func findRun(dir string) (address, error) {
	var a address
	f, err := host.OpenOwn(filepath.Join(dir, addressName), os.O_RDONLY, 0)
	if err != nil {
		return a, nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAddress))
	if err != nil || json.Unmarshal(b, &a) != nil || a.Host == "" {
		return address{}, nil
	}
	me := here("")
	switch {
	case a.Boot == me.Boot && a.Boot != "":
		return a, nil
	case a.Host == me.Host, unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil:
		return a, ErrNoRun
	}
	return a, &OtherHostError{Host: a.Host, PID: a.PID}
}

// elsewhere returns a socket path for a batch folder whose file system does not support
// sockets: in $XDG_RUNTIME_DIR/gpurun or /tmp/gpurun-UID, named by a hash of the folder.
// Only this user can write there.
func elsewhere(dir string, why error) (string, error) {
	uid := os.Geteuid()
	base := filepath.Join("/tmp", "gpurun-"+strconv.Itoa(uid))
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		base = filepath.Join(run, "gpurun")
	}
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%w; nor elsewhere: %w", why, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(base, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: base, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != uid || st.Mode&0o022 != 0 {
		return "", fmt.Errorf("%w; nor elsewhere: %s is not a folder that only this user can write to", why, base)
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(base, hex.EncodeToString(sum[:8])+".sock"), nil
}
