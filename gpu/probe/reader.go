package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/state/host"
)

// Options control how to read through NVML.
type Options struct {
	Library string               // path of the NVML library; "" for the loader's libnvidia-ml.so.1
	Log     zerolog.Logger       // for developers; Read returns everything that users need
	Now     func() time.Duration // nil for host.Boottime

	Deadline     time.Duration // for each reading; 0 for 10 s
	InitDeadline time.Duration // for the first contact, when the driver may have to initialize the GPUs; 0 for 60 s
}

// A reader reads through a child. It abandons a child that hangs, and starts no other while that
// child is alive. After a crash, it starts another child immediately, and after further crashes
// with growing pauses.
type reader struct {
	o      Options
	mu     sync.Mutex
	found  hello // from Open; a silent device is replaced once it responds
	closed bool
	blind  bool // process lists are not read, because the driver's lists are endless

	child   *child
	stuck   *child        // abandoned, but possibly still alive
	failed  string        // why there is no child
	fails   int           // number of failures in a row
	nextTry time.Duration // earliest time of the next start
}

// maxPause is the longest pause between two starts.
const maxPause = 60 * time.Second

// Open starts reading through NVML in a child process. The child runs this program with the argument
// __probe, which main must handle by calling ChildMain. An error of type *Missing explains why NVML
// offers no GPU.
func Open(ctx context.Context, o Options) (Prober, error) {
	if o.Now == nil {
		o.Now = host.Boottime
	}
	o.Deadline, o.InitDeadline = cmp.Or(o.Deadline, 10*time.Second), cmp.Or(o.InitDeadline, time.Minute)
	if !withNVML {
		return nil, missingBuild()
	}
	r := &reader{o: o}
	h, err := r.start(ctx, o.InitDeadline)
	if err != nil {
		var missing *Missing
		switch {
		case errors.As(err, &missing) || ctx.Err() != nil:
			return nil, err
		case errors.Is(err, errHung):
			return nil, &Missing{Text: fmt.Sprintf("the NVIDIA driver did not answer within %v", o.InitDeadline),
				Hint: "run nvidia-smi and check the kernel log (dmesg)" + simInstead}
		}
		return nil, &Missing{Text: "the process that reads the GPUs " + err.Error(),
			Hint: "check that nvidia-smi works" + simInstead}
	}
	if len(h.Devices) == 0 {
		_ = r.Close()
		return nil, &Missing{Text: "the NVIDIA driver is installed, but it has no usable GPU",
			Hint: "check that nvidia-smi -L lists a GPU and, in a container, that the container has access to it" + simInstead}
	}
	r.found = *h
	return r, nil
}

// start starts a child and waits for its hello.
func (r *reader) start(ctx context.Context, limit time.Duration) (*hello, error) {
	c, err := startChild(r.o.Library, !r.blind)
	if err != nil {
		return nil, fmt.Errorf("failed to start: %w", err)
	}
	a, err := c.next(ctx, limit)
	if err != nil {
		r.abandon(c)
		if errors.Is(err, errHung) {
			err = fmt.Errorf("the driver hangs: %w within %v", err, limit)
		}
		return nil, err
	}
	h := a.Hello
	if h.Missing != nil {
		c.close(time.Second)
		return nil, h.Missing
	}
	for _, w := range h.Warnings {
		r.o.Log.Warn().Msg(w)
	}
	r.o.Log.Info().Str("version", h.Version).Int("pid", c.cmd.Process.Pid).Int("devices", len(h.Devices)).Msg("reading GPUs")
	r.child = c
	return h, nil
}

// abandon kills a child that is no longer useful.
func (r *reader) abandon(c *child) {
	c.kill()
	c.stuckAt = r.o.Now()
	r.stuck, r.child = c, nil
}

// Devices returns the devices found by Open.
func (r *reader) Devices() []gpu.Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.found.Devices)
}

// identify records the identities of silent devices that have responded.
func (r *reader) identify(readings []gpu.Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range readings {
		for k := range r.found.Devices {
			if f := readings[i].Found; f != nil && r.found.Devices[k].UUID == readings[i].UUID {
				r.found.Devices[k] = *f
			}
		}
	}
}

// Version returns NVML's and the driver's versions.
func (r *reader) Version() string { return r.found.Version }

// Complete reports whether Devices lists every device that NVML counts.
func (r *reader) Complete() bool { return !r.found.Partial }

// Private returns false, because all processes on the host see these devices.
func (r *reader) Private() bool { return false }

// Close ends the child, unless it hangs in the kernel.
func (r *reader) Close() error {
	r.closed = true
	if r.child != nil {
		r.child.close(500 * time.Millisecond)
		r.child = nil
	}
	return nil
}

// Read takes a reading; see Prober.
func (r *reader) Read(ctx context.Context, q Query) gpu.Observation {
	at := r.o.Now()
	if len(q.UUIDs) == 0 {
		for _, d := range r.Devices() {
			q.UUIDs = append(q.UUIDs, d.UUID)
		}
	}
	snap := gpu.Observation{At: at}
	var err error
	for range 2 {
		if err = r.ensure(ctx); err != nil {
			break
		}
		if snap.Readings, err = r.ask(ctx, q); !errors.Is(err, errCrashed) {
			break
		}
	}
	if err != nil {
		snap.Err, snap.Readings = err.Error(), nil
	}
	return snap
}

// ensure starts a child if there is none, or returns why it cannot.
func (r *reader) ensure(ctx context.Context) error {
	if r.closed {
		return errors.New("the reader is closed")
	}
	if r.child != nil {
		return nil
	}
	// A killed child ends quickly unless it hangs in the kernel.
	if r.stuck != nil && !r.stuck.gone(ctx, 100*time.Millisecond) {
		return cmp.Or(ctx.Err(), fmt.Errorf("the driver hangs: gpurun gave up on a reading %v ago", (r.o.Now()-r.stuck.stuckAt).Round(time.Second)))
	}
	r.stuck = nil
	if r.fails > 0 && r.o.Now() < r.nextTry {
		return errors.New(r.failed)
	}
	if _, err := r.start(ctx, r.o.InitDeadline); err != nil {
		if ctx.Err() == nil {
			r.fail(err)
		}
		return err
	}
	return nil
}

// ask makes the child take a reading, and abandons the child if it does not answer in time.
func (r *reader) ask(ctx context.Context, q Query) ([]gpu.Reading, error) {
	sent := r.o.Now()
	a, err := r.child.ask(ctx, question{Query: q}, r.o.Deadline)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // the next call skips a late answer
	case err != nil:
		if errors.Is(err, errHung) {
			err = fmt.Errorf("the driver hangs: no response within %v", r.o.Deadline)
		} else {
			err = fmt.Errorf("the process that reads the GPUs %w", err)
		}
		if q.Processes && !r.blind && outOfMemory(err) {
			r.blind = true
			r.o.Log.Warn().Msg("the driver returns endless process lists, so gpurun no longer reads them")
		}
		r.abandon(r.child)
		r.fail(err)
		return nil, err
	case a.Gone != "":
		r.child.close(time.Second)
		r.child = nil
		err = errors.New(a.Gone)
		r.fail(err)
		return nil, err
	}
	r.fails = 0
	for i := range a.Readings {
		for j := range a.Readings[i].Samples {
			a.Readings[i].Samples[j].At += sent // the child reports their ages
		}
	}
	r.identify(a.Readings)
	return a.Readings, nil
}

// outOfMemory reports whether the child exceeded its memory limit. Go reports this differently
// depending on the allocation that failed, which may be the stack of a new thread.
func outOfMemory(err error) bool {
	return slices.ContainsFunc([]string{"out of memory", "cannot allocate memory", "pthread_create failed"}, func(text string) bool {
		return strings.Contains(err.Error(), text)
	})
}

// fail records a failure and the time of the next try: immediately after the first failure, then
// after 1, 2, 4 … 60 s.
func (r *reader) fail(err error) {
	r.fails++
	r.failed = err.Error()
	r.nextTry = r.o.Now()
	if r.fails > 1 {
		r.nextTry += min(maxPause, time.Second<<min(r.fails-2, 10))
	}
	r.o.Log.Warn().Str("why", r.failed).Int("in a row", r.fails).Msg("no GPU readings")
}
