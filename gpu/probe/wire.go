package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"

	"gpurun/gpu"
)

// The parent and the child exchange lines of JSON: the child says hello once,
// then answers each question. Times in an answer are relative to the reading; the
// parent converts them to its own clock.

// maxLine bounds one line: about a thousand processes on each of 64 devices.
const maxLine = 16 << 20

// hello is the child's first line: what it found, or why it found nothing.
type hello struct {
	Devices  []gpu.Device `json:"devices,omitempty"`
	Version  string       `json:"version,omitempty"`
	Missing  *Missing     `json:"missing,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	Partial  bool         `json:"partial,omitempty"` // Devices lacks some that NVML counts
}

// A question asks for a reading of devices by UUID.
type question struct {
	ID        uint64     `json:"id"`
	UUIDs     []gpu.UUID `json:"uuids"`
	Processes bool       `json:"processes"`
}

// An answer has one reading for each device in its question.
type answer struct {
	ID       uint64        `json:"id"`
	Readings []gpu.Reading `json:"readings"`
	// Gone is why the whole driver is gone, or "". The child then exits, since a
	// process that has loaded one NVML cannot load another.
	Gone string `json:"gone,omitempty"`
}

var errLongLine = errors.New("line too long for an answer")

// readLine reads the next JSON object into v. It skips other lines: a library may
// print its own.
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

// shift adds d to sample times, converting them to the parent's clock.
func shift(readings []gpu.Reading, d time.Duration) {
	for i := range readings {
		for j := range readings[i].Samples {
			readings[i].Samples[j].At += d
		}
	}
}
