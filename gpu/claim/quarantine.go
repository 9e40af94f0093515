package claim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// A quarantine is published as <uuid>.sick in its user's folder. No process holds it: it is in
// force until its end or the next boot. Its file stays until the next boot, because it records how
// often the device was quarantined.
const (
	quarantineSuffix = ".sick"
	sickVersion      = 1
	maxSick          = 256 // maximum per user
	maxEvidence      = 5   // maximum per quarantine
	maxWhy           = 500 // maximum bytes of a sentence
)

type quarantineRecord struct {
	Version int    `json:"version"`
	BootID  string `json:"boot_id"`
	gpu.Quarantine
}

// Publish publishes this user's quarantine of a device below the first root that accepts it,
// replacing the previous one.
func Publish(roots []string, q gpu.Quarantine) error {
	q.UID = host.CurrentUID()
	body, err := json.MarshalIndent(quarantineRecord{sickVersion, host.BootID(), q}, "", "  ")
	if err != nil {
		return err
	}
	_, err = inFirst(roots, func(dir *os.File) error {
		return replace(dir, quarantineName(q.UUID), func() ([]byte, error) { return body, nil })
	})
	return err
}

func quarantineName(id gpu.UUID) string { return fileName(string(id), 0) + quarantineSuffix }

// Clear lifts this user's quarantine of a device.
func Clear(roots []string, id gpu.UUID) (err error) {
	for _, f := range mine(roots...) {
		if gone := os.Remove(filepath.Join(f.path, quarantineName(id))); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = gone
		}
	}
	return err
}

// Quarantines returns all users' quarantines since boot, as of the last reading of their folders.
// The list is never nil.
func (r *Reader) Quarantines() []gpu.Quarantine {
	return append([]gpu.Quarantine{}, r.latest().sick...)
}

// readQuarantine reads one quarantine of user uid, under the rules for claims.
func readQuarantine(d *os.File, name string, uid int) (q gpu.Quarantine, err error) {
	b, err := readPlain(d, name, uid)
	if err != nil {
		return q, err
	}
	var s quarantineRecord
	if err := json.Unmarshal(b, &s); err != nil {
		return q, fmt.Errorf("not a quarantine: %w", err)
	}
	switch {
	case s.BootID != host.BootID():
		return q, errGone
	case s.Version < 1 || s.UUID == "" || name != quarantineName(s.UUID):
		return q, errors.New("not a quarantine: it lacks a version, or its name does not match its device")
	case s.UID != uid:
		return q, fmt.Errorf("it names uid %d but belongs to uid %d", s.UID, uid)
	}
	s.Evidence = s.Evidence[:min(len(s.Evidence), maxEvidence)]
	for i, text := range s.Evidence {
		s.Evidence[i] = text[:min(len(text), maxWhy)]
	}
	left := min(s.Ends-host.Boottime(), gpu.LongestQuarantine) // by boot time, because the clock may be set
	s.User, s.Until, s.Ends = login(uid), time.Now().Add(left), host.Boottime()+left
	s.Times, s.Why = max(0, s.Times), s.Why[:min(len(s.Why), maxWhy)]
	return s.Quarantine, nil
}
