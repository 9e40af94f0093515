package source

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gpurun/state/host"
)

// maxFile is the maximum size of a job file: four times that of a file with a hundred thousand
// separate jobs.
const maxFile = 64 << 20

// Reachable reports whether gpurun may read a path. gpurun mcp and the commands that it starts may
// read only some folders.
func Reachable(path string) bool { return host.Within(path) == nil }

// ReadRegular reads a job file, or a file named in one, if it is reachable.
func ReadRegular(path string) ([]byte, error) { return read(path, host.OpenReachable) }

// ReadAnywhere is like ReadRegular, but also reads files outside the folders that gpurun mcp is
// restricted to. Use it only for the user's own files, not for paths from job files.
func ReadAnywhere(path string) ([]byte, error) { return read(path, host.Open) }

// read reads a regular file of at most maxFile bytes. open must not block; otherwise, opening a
// FIFO without a writer would hang forever.
func read(path string, open func(string) (*os.File, error)) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, openError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, openError(err)
	case info.IsDir():
		return nil, Faultf("name a job file in the folder", "is a folder, not a job file")
	case !info.Mode().IsRegular():
		return nil, Faultf("write its content to a regular file", "is not a regular file (%s)", info.Mode().Type())
	}
	var data []byte
	if info.Size() <= maxFile {
		data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	if err != nil {
		return nil, openError(err)
	}
	if size := max(info.Size(), int64(len(data))); size > maxFile {
		return nil, Faultf("is it a job file? a matrix describes a million jobs in a few lines", "is %d MiB; the limit for job files is %d MiB", size>>20, maxFile>>20)
	}
	return data, nil
}

func openError(err error) error {
	var pe *fs.PathError
	path := ""
	if errors.As(err, &pe) {
		path, err = pe.Path, pe.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Faultf(nearFile(path), "no such file")
	case errors.Is(err, fs.ErrPermission):
		return Faultf("run chmod +r on it", "permission denied")
	case errors.As(err, new(*host.OutsideError)):
		return err
	}
	return Faultf("", "cannot read the file: %s", err)
}

// nearFile suggests a file beside path with a similar name, or returns "".
func nearFile(path string) string {
	if path == "" {
		return "the name is empty: is a shell variable unset?"
	}
	dir, base := filepath.Split(path)
	f, err := os.Open(cmp.Or(dir, "."))
	if err != nil {
		return ""
	}
	defer f.Close()
	var near []string
	names, _ := f.Readdirnames(10_000)
	for _, n := range names {
		if slices.Contains([]string{".yaml", ".yml", ".txt", ".json"}, filepath.Ext(n)) {
			near = append(near, n)
		}
	}
	slices.Sort(near)
	if n := Nearest(base, near); n != "" {
		return fmt.Sprintf("did you mean %s?", dir+n)
	}
	return ""
}
