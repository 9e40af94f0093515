package keeper

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// oomCounter reads how many processes the kernel has killed for lack of memory: in this
// cgroup (v2) if it counts them, otherwise on the whole host.
type oomCounter struct {
	mu   sync.Mutex
	path string
	at   time.Time
	last uint64
}

// freshFor is how old a reading may be when an attempt starts.
const freshFor = 100 * time.Millisecond

// before returns a count at most freshFor old, so that many simultaneous starts share
// one reading.
func (c *oomCounter) before() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.at) > freshFor {
		c.last, c.at = c.read(), now
	}
	return c.last
}

// now returns the current count.
func (c *oomCounter) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *oomCounter) read() uint64 {
	if c.path == "" {
		c.path = oomFile()
	}
	b, _ := os.ReadFile(c.path)
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
			n, _ := strconv.ParseUint(value, 10, 64)
			return n
		}
	}
	return 0
}

func oomFile() string {
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			events := filepath.Join("/sys/fs/cgroup", path, "memory.events")
			if _, err := os.Stat(events); err == nil {
				return events
			}
		}
	}
	return "/proc/vmstat"
}
