package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"

	"gpurun/gpu"
)

// The parent and the child speak in lines of JSON: the child says hello once,
// then answers each question. Times in an answer are relative to the moment of
// the reading; the parent, whose clock counts, puts them right.

// maxLine bounds one line: some thousand processes on each of 64 devices.
const maxLine = 16 << 20

// hello is the child's first line: what it found, or why there is nothing.
type hello struct {
	Devices  []gpu.Device `json:"devices,omitempty"`
	Version  string       `json:"version,omitempty"`
	Missing  *Missing     `json:"missing,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	Partial  bool         `json:"partial,omitempty"` // some of what NVML counts is not in Devices
}

// A question asks for a reading of devices by UUID.
type question struct {
	ID        uint64     `json:"id"`
	UUIDs     []gpu.UUID `json:"uuids"`
	Processes bool       `json:"processes"`
}

// An answer has one reading for each device of its question.
type answer struct {
	ID       uint64        `json:"id"`
	Readings []gpu.Reading `json:"readings"`
	// Gone says that the driver as a whole is gone, and why. The child ends
	// after it, since a process that has loaded one NVML cannot load another.
	Gone string `json:"gone,omitempty"`
}

var errLongLine = errors.New("a line longer than any answer")

// readLine reads a line into v, and passes over what is no JSON object: a
// library may print on its own account.
func readLine(r *bufio.Reader, v any) error {
	for {
		line, err := boundedLine(r)
		if err != nil {
			return err
		}
		if len(line) > 0 && line[0] == '{' {
			return json.Unmarshal(line, v)
		}
	}
}

func boundedLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, errLongLine
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// shift moves the samples of readings by d: from the reading's own time to the parent's.
func shift(readings []gpu.Reading, d time.Duration) {
	for i := range readings {
		for j := range readings[i].Samples {
			readings[i].Samples[j].At += d
		}
	}
}
