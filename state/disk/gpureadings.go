package disk

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"gpurun/state"
	"gpurun/state/host"
)

// A GPUReadingFile stores a batch's state.GPUReadings as text. Nothing depends on it.
type GPUReadingFile struct{ path string }

// maxReadingFile is larger than state.GPUReadings can become.
const maxReadingFile = 8 << 20

// GPUReadings returns the batch's file of readings, which is in the folder of its first job file.
func (s *State) GPUReadings() GPUReadingFile {
	return GPUReadingFile{filepath.Join(s.files[0].dir, readingsName)}
}

// Watched returns until when runs read the GPUs from a time on without a gap, or that time.
func (s *State) Watched(since time.Time) time.Time { return s.GPUReadings().Load().Until(since) }

// GPUReadings returns the readings stored in a batch's folder.
func GPUReadings(dir string) *state.GPUReadings {
	return GPUReadingFile{filepath.Join(dir, readingsName)}.Load()
}

// Load returns the readings in the file, or none if it cannot be read.
func (f GPUReadingFile) Load() *state.GPUReadings {
	text, err := host.ReadOwn(f.path, maxReadingFile)
	if err != nil {
		return &state.GPUReadings{}
	}
	return state.ParseGPUReadings(string(text))
}

// Append appends text to the file. It fails if the file is gone.
func (f GPUReadingFile) Append(text []byte) error {
	file, err := host.OpenOwn(f.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// Replace replaces the whole file.
func (f GPUReadingFile) Replace(text []byte) error { return Replace(f.path, text) }
