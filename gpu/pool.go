package gpu

import "time"

// Rules are what a run as a whole may use. They do not change while it lives.
type Rules struct {
	IDs     []string // the devices it manages: indices or UUIDs (or a unique beginning); empty for all
	Reserve int      // so many of the highest managed indices stay free for others
	MinGPUs int      // -1 when neither MinGPUs nor MaxGPUs is given, and then Reserve fixes indices
	MaxGPUs int      // -1 when not given
	Others  Others   // what another user's process on a device means
	Pick    Pick     // which of the devices that fit
	UID     int      // this user
}

// Others is the rule about devices that other users' processes stand on.
type Others string

const (
	OthersAllow Others = "allow" // memory and utilisation decide, empty devices first
	OthersAvoid Others = "avoid" // refuse every device with another user's process or memory nobody visible holds
)

// Pick names a policy that chooses among the devices that fit.
type Pick string

const (
	MostFree   Pick = "most-free"
	LeastUtil  Pick = "least-util"
	FirstFit   Pick = "first-fit"
	BestFit    Pick = "best-fit"
	RoundRobin Pick = "round-robin"
)

// A Verdict says whether a device lets a request on now.
type Verdict struct {
	UUID   UUID
	Index  int
	OK     bool
	Reason string        // in words, when not OK: "71% busy, limit 30%"
	Never  bool          // no waiting helps: not managed, wrong model, too small
	Until  time.Duration // CLOCK_BOOTTIME at which the verdict can change by time alone; 0 when it cannot
	Free   Bytes         // free minus promised, as judged; -1 unknown
	Ours   bool          // attempts of this run hold it, and that is why it is refused
}

// A Pool knows the managed devices, their latest readings, and what this run
// holds of them. It is plain state owned by one goroutine.
type Pool struct{}

// NewPool makes a pool over devs, which are in PCI order.
func NewPool(devs []Device, rules Rules) *Pool { panic("unwritten") }

// Observe takes over what snap says of the devices it has readings of.
func (p *Pool) Observe(snap Snapshot) { panic("unwritten") }

// Admit judges every device for req, in PCI order, by the six rules; it changes nothing.
func (p *Pool) Admit(now time.Duration, req Request) []Verdict { panic("unwritten") }

// Choose picks devices for req, without kept ones, or says for each why not. It changes
// nothing but the turn of round-robin, which moves on when the grant is held.
func (p *Pool) Choose(now time.Duration, req Request, kept []UUID) (Grant, []Verdict, bool) {
	panic("unwritten")
}

// Hold sets a grant aside for attempt, a name that is unique among those held.
func (p *Pool) Hold(attempt string, g Grant) { panic("unwritten") }

// Rename changes the name under which a grant is held.
func (p *Pool) Rename(from, to string) { panic("unwritten") }

// Release gives back what attempt holds. Devices that nobody else of this run
// stands on count from now on as just got back, until another reading or grant says otherwise.
func (p *Pool) Release(now time.Duration, attempt string) []UUID { panic("unwritten") }

// Possible says whether devices of this pool could ever take req, and if not, why.
func (p *Pool) Possible(req Request) (string, bool) { panic("unwritten") }

// Devices lists the managed devices in PCI order.
func (p *Pool) Devices() []Device { panic("unwritten") }
