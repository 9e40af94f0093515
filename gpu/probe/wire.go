package probe

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"gpurun/gpu"
)

// The parent and the child exchange lines of JSON: the child says hello, then
// answers each question. Times in an answer are relative to the reading; the
// parent converts them to its own clock.

// maxLine bounds one line: about a thousand processes on each of 64 devices.
const maxLine = 16 << 20

var errLongLine = errors.New("line too long for an answer")

// hello is what the child found, or why it found nothing.
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
	Hello    *hello        `json:"hello,omitempty"` // in the first answer, and nothing else
	Readings []gpu.Reading `json:"readings,omitempty"`
	// Gone is why the whole driver is gone, or "". The child then exits, since a
	// process that has loaded one NVML cannot load another.
	Gone string `json:"gone,omitempty"`
}

// A tail keeps the most telling line of what is written to it: the first of a Go
// crash, else the last one.
type tail struct {
	mu    sync.Mutex
	part  []byte // of a line
	crash string
	line  string
}

const maxTail = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(p) {
		t.part = append(t.part, line[:min(len(line), maxTail-len(t.part))]...)
		if line[len(line)-1] == '\n' {
			t.end()
		}
	}
	return len(p), nil
}

// end ends a line.
func (t *tail) end() {
	line := strings.TrimSpace(string(t.part))
	t.part = t.part[:0]
	for _, start := range []string{"panic: ", "fatal error: ", "SIG"} {
		if t.crash == "" && strings.HasPrefix(line, start) {
			t.crash = line
		}
	}
	if line != "" {
		t.line = line
	}
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	if t.crash != "" {
		return t.crash
	}
	return t.line
}
