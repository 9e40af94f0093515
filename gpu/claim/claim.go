package claim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/state/host"
)

const (
	version = 1
	suffix  = ".claim"

	// RootVariable is the environment variable that overrides the root.
	RootVariable = "GPURUN_CLAIMS_DIR"

	// AttemptVariable is the environment variable with the uni_id of the attempt that a job runs in.
	AttemptVariable = "GPURUN_UNI_ID"

	prefix = "gpurun-"
)

// These limits apply to other users' files. Normal use reaches none of them.
const (
	maxSize    = 64 << 10 // bytes of a claim
	maxNames   = 4096     // names in one user's folders
	maxHalf    = 64       // files in one folder that are still being written
	maxOwned   = 8        // folders of one user; one is enough unless another user takes its name
	maxFolders = 4096
	maxDevices = 256 // in one claim
	maxMemory  = gpu.Bytes(math.MaxInt64 >> 16)
	maxText    = 200 // bytes of a name
	maxCPUs    = 1 << 16
)

// Root returns the parent of all users' folders.
func Root() string { return cmp.Or(os.Getenv(RootVariable), "/var/tmp") }

// Roots returns the folders where this user's claims can be, in order of preference: Root, folders
// in the runtime folder and in the home, and a folder in the run's own folder, state, if that is not
// "". All runs of this user find the folders in the runtime folder and in the home, so that at least
// these runs see each other. Roots leaves out a runtime folder or home that this user does not own.
func Roots(state string) []string {
	roots := []string{Root()}
	add := func(dir string, sub ...string) {
		if filepath.IsAbs(dir) && owned(dir) {
			if dir = filepath.Join(append([]string{dir}, sub...)...); !slices.Contains(roots, dir) {
				roots = append(roots, dir)
			}
		}
	}
	// Under cron and sudo, XDG_RUNTIME_DIR may be unset.
	add(os.Getenv("XDG_RUNTIME_DIR"), "gpurun-claims")
	add("/run/user/"+strconv.Itoa(os.Getuid()), "gpurun-claims")
	host, _ := os.Hostname() // hosts may share a home folder
	add(os.Getenv("HOME"), ".local", "state", "gpurun", "claims-"+filepath.Base(host))
	if state != "" {
		roots = append(roots, filepath.Join(state, "claims"))
	}
	return roots
}

func owned(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && int(st.Uid) == os.Getuid()
}

// content is the content of a claim file.
type content struct {
	Version int `json:"version"`
	identity
	User    string          `json:"user,omitempty"` // for display; readers look up the name themselves
	UniID   string          `json:"uni_id"`
	Job     string          `json:"job"`
	Since   time.Time       `json:"since"`
	Share   bool            `json:"share,omitempty"`
	Slots   int             `json:"slots,omitempty"`      // maximum number of jobs on each device
	Run     string          `json:"run,omitempty"`        // ID of the run
	Behind  bool            `json:"background,omitempty"` // the run gives way to all others
	Gathers bool            `json:"gathering,omitempty"`  // the device is reserved for a job that still needs other devices
	Devices []contentDevice `json:"devices"`

	CPUs int       `json:"cpus,omitempty"`
	RAM  gpu.Bytes `json:"host_memory_bytes,omitempty"`
	Ends time.Time `json:"ends,omitzero"` // expected end; zero if unknown
}

type contentDevice struct {
	UUID   gpu.UUID  `json:"uuid"`
	Memory gpu.Bytes `json:"memory_bytes"`
	To     string    `json:"to,omitempty"` // ID of the run that may use the device now that the attempt has ended
}

// A Subject is the attempt that a claim is for.
type Subject struct {
	UniID, Job string
	Grant      gpu.Grant
	Run        string // ID of the run
}

// newContent returns the content of a claim by this process. The claim begins now unless the grant
// has a time.
func newContent(s Subject) *content {
	c := &content{
		Version: version, identity: self(), User: login(host.CurrentUID()), UniID: s.UniID, Job: cut(s.Job), Since: s.Grant.Since,
		Share: s.Grant.Share, Slots: s.Grant.Slots, Run: s.Run, Behind: s.Grant.Background, Gathers: s.Grant.Gathering,
	}
	c.CPUs, c.RAM, c.Ends = s.Grant.CPUs, s.Grant.RAM, s.Grant.Ends
	if c.Since.IsZero() {
		c.Since = time.Now()
	}
	for _, id := range s.Grant.UUIDs {
		c.Devices = append(c.Devices, contentDevice{UUID: id, Memory: s.Grant.Memory})
	}
	return c
}

// encode returns content as the JSON text of a file, padded with spaces to at least size bytes.
func encode(content any, size int) ([]byte, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	for len(body) < size-1 {
		body = append(body, ' ')
	}
	return append(body, '\n'), nil
}

// parse parses a claim from an untrusted writer.
func parse(b []byte) (*content, error) {
	var c content
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("not a claim: %w", err)
	}
	switch {
	case c.Version < 1 || c.PID < 1 || c.UniID == "" || len(c.Devices) == 0:
		return nil, fmt.Errorf("not a claim: it lacks a version, a pid, a uni_id or devices")
	case len(c.Devices) > maxDevices:
		return nil, fmt.Errorf("it claims too many devices: %d", len(c.Devices))
	}
	c.Job, c.UniID, c.Run = cut(c.Job), cut(c.UniID), cut(c.Run)
	for i := range c.Devices {
		c.Devices[i].To = cut(c.Devices[i].To)
	}
	return &c, nil
}

// bounded limits untrusted values to plausible ones.
func bounded(b gpu.HostResources) gpu.HostResources {
	return gpu.HostResources{CPUs: min(max(b.CPUs, 0), maxCPUs), RAM: min(max(b.RAM, 0), maxMemory)}
}

func cut(s string) string { return s[:min(len(s), maxText)] }

// claims returns the claims of c, one per device.
func (c *content) claims(user string) []gpu.Claim {
	list := make([]gpu.Claim, 0, len(c.Devices))
	pid := c.PID
	if !c.here() {
		pid = 0
	}
	resources := bounded(gpu.HostResources{CPUs: c.CPUs, RAM: c.RAM})
	resources.Ends = c.Ends
	seen := map[gpu.UUID]bool{}
	for _, d := range c.Devices {
		if seen[d.UUID] {
			continue
		}
		seen[d.UUID] = true
		list = append(list, gpu.Claim{
			UUID: d.UUID, UID: c.UID, User: user, Job: c.Job, PID: pid, Since: c.Since,
			Memory: min(max(d.Memory, 0), maxMemory), Share: c.Share, Slots: c.Slots, Attempt: c.UniID,
			Run: c.Run, Background: c.Behind, Gathering: c.Gathers, To: d.To, HostResources: resources,
		})
	}
	return list
}
