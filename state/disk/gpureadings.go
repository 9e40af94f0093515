package disk

import (
	"errors"
	"os"
	"path/filepath"

	"gpurun/state"
	"gpurun/state/host"
)

// A GPUReadingFile keeps the readings of GPUs of a batch: state.GPUReadings as text. Nothing depends
// on it.
type GPUReadingFile struct{ path string }

// maxReadingFile is more than what state.GPUReadings can become.
const maxReadingFile = 8 << 20

// GPUReadings returns the file of a batch, which is in the folder of its first file.
func (s *State) GPUReadings() GPUReadingFile {
	return GPUReadingFile{filepath.Join(s.files[0].dir, readingsName)}
}

// GPUReadings returns the readings that are kept in a batch's folder.
func GPUReadings(dir string) *state.GPUReadings {
	return GPUReadingFile{filepath.Join(dir, readingsName)}.Load()
}

// Load returns what the file has; nothing, if it cannot be read.
func (f GPUReadingFile) Load() *state.GPUReadings {
	text, err := host.ReadOwn(f.path, maxReadingFile)
	if err != nil {
		return &state.GPUReadings{}
	}
	return state.ParseGPUReadings(string(text))
}

// Append adds to the end. A file that is gone is an error.
func (f GPUReadingFile) Append(text []byte) error {
	file, err := host.OpenOwn(f.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// Replace writes the whole file.
func (f GPUReadingFile) Replace(text []byte) error { return Replace(f.path, text) }
