package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"gpurun/state/host"
)

// MaxLines bounds the size of a stored list of commands that did not come from a file.
const MaxLines = 64 << 20

// Lines returns the data that KeepLines stored, or nil.
func Lines(jobFile, stateDir string) []byte {
	data, err := host.ReadOwn(linesPath(Folder(jobFile, stateDir)), 2*MaxLines) // base64 makes it longer
	if err != nil {
		return nil
	}
	return data
}

// KeepLines stores how a run reads a job file, if the file itself does not show that. If data is
// nil, it removes what was stored.
func (s *State) KeepLines(file int, data []byte) error {
	dir := s.files[file].dir
	path := linesPath(dir)
	old, err := os.ReadFile(path)
	switch {
	case data == nil:
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	case err == nil && bytes.Equal(old, data):
		return nil
	default:
		err = Replace(path, data)
	}
	return in(dir, err)
}

func linesPath(dir string) string { return filepath.Join(dir, "lines.json") }
