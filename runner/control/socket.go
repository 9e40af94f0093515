package control

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// socketName is the socket's name in the batch folder.
const socketName = "control.sock"

// fallbackPaths returns socket paths for a batch folder whose file system does not support sockets.
// They are in the user's runtime folder and in /tmp, and their names are a hash of the batch
// folder's path. A run listens on the first that works; a client's environment may differ, so it
// tries all of them.
func fallbackPaths(dir string) (paths []string) {
	uid := strconv.Itoa(os.Geteuid())
	sum := sha256.Sum256([]byte(dir))
	name := hex.EncodeToString(sum[:8]) + ".sock"
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		paths = append(paths, filepath.Join(runtime, "gpurun", name))
	}
	return append(paths, filepath.Join("/tmp/gpurun-"+uid, name), filepath.Join("/run/user", uid, "gpurun", name))
}

// makeFolder creates a folder that only this user can write to, for a socket outside the batch
// folder.
func makeFolder(path string) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only this user can write to", dir)
	}
	return nil
}
