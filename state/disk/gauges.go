package disk

import (
	"errors"
	"os"
	"path/filepath"

	"gpurun/state"
	"gpurun/state/host"
)

// A GaugeFile keeps the readings of GPUs of a batch: state.Gauges as text. Nothing depends
// on it.
type GaugeFile struct{ path string }

// maxGaugeFile is more than what state.Gauges can become.
const maxGaugeFile = 8 << 20

// Gauges returns the file of a batch, which is in the folder of its first file.
func (s *State) Gauges() GaugeFile { return GaugeFile{filepath.Join(s.files[0].dir, gaugesName)} }

// Gauges returns the readings that are kept in a batch's folder.
func Gauges(dir string) *state.Gauges { return GaugeFile{filepath.Join(dir, gaugesName)}.Load() }

// Load returns what the file has; nothing, if it cannot be read.
func (f GaugeFile) Load() *state.Gauges {
	text, err := host.ReadOwn(f.path, maxGaugeFile)
	if err != nil {
		return &state.Gauges{}
	}
	return state.ReadGauges(string(text))
}

// Append adds to the end. A file that is gone is an error.
func (f GaugeFile) Append(text []byte) error {
	file, err := host.OpenOwn(f.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// Replace writes the whole file.
func (f GaugeFile) Replace(text []byte) error { return Replace(f.path, text) }
