package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/report"
	"gpurun/runner/session"
	"gpurun/runner/web"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// A webSource provides this user's batches and this host's GPUs to gpurun web.
type webSource struct {
	*app
	cmd   *webCmd
	roots []string
	given []disk.Used // the job files on the command line

	mu      sync.Mutex
	mirrors map[string]*webBatch // by state folder

	host hostReader
}

// webSource returns a source. It discards the output of commands, because the server reports errors
// itself.
func (a *app) webSource(c *webCmd, roots []string) (*webSource, error) {
	its := a.within(a.StateDir, io.Discard)
	s := &webSource{app: its, cmd: c, roots: roots, mirrors: map[string]*webBatch{}}
	s.host = hostReader{app: its, flags: c.gpuFlags}
	for _, file := range c.Files {
		ref, err := a.Open(file)
		if err != nil {
			return nil, err
		}
		s.given = append(s.given, disk.Used{File: ref.Real, Dir: ref.Dir, StateDir: session.Absolute(a.StateDir)})
	}
	return s, nil
}

// Readings returns the GPU readings of all runs.
func (b *webBatch) Readings() *schema.Readings {
	return report.Readings(disk.GPUReadings(disk.Folder(b.File, b.StateDir)))
}

// Timeline lists all attempts, with the readings.
func (b *webBatch) Timeline() (*schema.Timeline, error) {
	attempts, err := b.Attempts()
	return &schema.Timeline{Head: schema.At(time.Now()), Attempts: schema.List(attempts), Readings: b.Readings()}, err
}

// Batches returns the batches to show.
func (s *webSource) Batches() []web.Batch {
	list := s.given
	if list == nil {
		list = disk.Remembered()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []web.Batch
	for _, u := range list {
		m := s.mirrors[u.Dir]
		if m == nil {
			m = &webBatch{&batches.Mirror{Reader: s.In(u.StateDir, nil), File: u.File}, s}
			s.mirrors[u.Dir] = m
		}
		if !slices.Contains(all, web.Batch(m)) {
			all = append(all, m)
		}
	}
	return all
}

// Host reads the GPUs of this host.
func (s *webSource) Host(ctx context.Context) (*schema.GPUs, error) {
	d, err := s.host.read(ctx)
	if f := (*web.Failure)(nil); errors.As(webFailure(err), &f) {
		f.Status, f.Code = http.StatusServiceUnavailable, schema.FailureCode(batches.ExitState) // the rest of the server still works
		return nil, f
	}
	return d, err
}

// Usage returns the GPU hours by user, and by batch for all of this user's batches.
func (s *webSource) Usage(ctx context.Context, days int) (*schema.Usage, error) {
	c := usageCmd{Sim: s.cmd.Sim}
	rep, err := c.report(ctx, s.app, days)
	if err != nil {
		return nil, err
	}
	for _, b := range s.Batches() {
		m := b.(*webBatch)
		c.addBatch(rep, m.File, disk.Folder(m.File, m.StateDir))
	}
	return rep, nil
}

// A hostReader reads the GPUs repeatedly.
type hostReader struct {
	app   *app
	flags gpuFlags

	mu        sync.Mutex
	*hostView           // nil until the driver has answered
	failed    error     // error from opening the driver
	again     time.Time // when to try again
}

// driverRetry is the time between attempts to open the driver.
const driverRetry = time.Minute

// read reads the GPUs once, like gpurun gpus and gpurun queue.
func (h *hostReader) read(ctx context.Context) (*schema.GPUs, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.open(ctx); err != nil {
		return nil, err
	}
	snap := h.observe(ctx, h.app)
	d, err := h.evaluate(snap, h.app.runningJobs())
	if err != nil {
		return nil, err
	}
	for i, place := range h.pool.Turns.Queue(snap.At) {
		if i < len(d.Waiting) && d.Waiting[i].Run != nil && *d.Waiting[i].Run == place.Run {
			d.Waiting[i].Text = schema.Known(whyWaiting(i, &place))
		}
	}
	return &d, nil
}

func (h *hostReader) open(ctx context.Context) error {
	if h.hostView != nil || h.failed != nil && time.Now().Before(h.again) {
		return h.failed
	}
	h.again = time.Now().Add(driverRetry)
	p, err := h.flags.source(false).Open(ctx, zerolog.Nop())
	if h.failed = err; err != nil {
		return err
	}
	v, err := defaultNeeds.view(h.app, p, h.flags.Sim != "")
	if h.failed = err; err != nil {
		p.Close()
		return err
	}
	h.hostView = v
	return nil
}

func (h *hostReader) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hostView != nil {
		h.Prober.Close()
	}
}

// A webBatch is a batch that the server shows.
type webBatch struct {
	*batches.Mirror
	source *webSource
}

// Do performs a client's request for the batch as the command line would.
func (m *webBatch) Do(file string, request any) ([]string, error) {
	b := batchFlag{File: cmp.Or(file, m.File)}
	var run func(*app) error
	named := true // whether jobs are given; always true for requests that need none
	switch r := request.(type) {
	case web.Stop:
		run = (&stopCmd{batchFlag: b, Jobs: r.Jobs, GPU: r.GPU, Drain: r.Drain}).Run
	case web.Retry:
		run, named = (&retryCmd{batchFlag: b, Jobs: r.Jobs}).Run, len(r.Jobs) > 0
	case web.Pause:
		run = (&pauseCmd{batchFlag: b, Jobs: r.Jobs}).Run
	case web.Resume:
		run = (&resumeCmd{batchFlag: b, Jobs: r.Jobs}).Run
	case web.Forget:
		run, named = (&forgetCmd{batchFlag: b, Jobs: r.Jobs}).Run, len(r.Jobs) > 0
	case web.Done:
		run, named = (&doneCmd{batchFlag: b, Jobs: r.Jobs, WithoutOutputs: r.WithoutOutputs}).Run, len(r.Jobs) > 0
	case web.Set:
		if len(r.Set) == 0 {
			return nil, &batches.Failure{Code: batches.ExitUsage, Text: "set: name at least one setting"}
		}
		run = func(a *app) error {
			return a.steer(&b, control.Request{Op: control.OpSet, Jobs: r.Jobs, Set: r.Set}, "changed", "changed")
		}
	case web.Reload:
		if err := m.onlyOurs(); err != nil {
			return nil, err
		}
		run = (&reloadCmd{batchFlag: b}).Run
	case web.Add:
		return m.add(r.Command)
	}
	if !named {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "jobs: name at least one, or use a glob"}
	}
	return m.verb(file == "", run)
}

// onlyOurs returns an error if other users can modify one of the batch's files.
func (m *webBatch) onlyOurs() error {
	var read []string
	ref, err := m.In(m.StateDir, func(path string) { read = append(read, path) }).Open(m.File)
	if err != nil {
		return err
	}
	_ = ref.Read() // the run itself will report errors in the files
	for _, file := range append(read, ref.Files()...) {
		if err := disk.CheckOwnership(file); err != nil {
			return &batches.Failure{Code: batches.ExitFailed, Text: "not reread: " + err.Error(), Err: err}
		}
	}
	return nil
}

// within returns an app in this process that prints only to out.
func (a *app) within(stateDir string, out io.Writer) *app {
	its := &app{out: out, global: a.global}
	its.Process = &session.Process{Err: io.Discard, Say: its.say, Done: a.Done}
	its.Reader = &batches.Reader{StateDir: stateDir, Start: a.Go, Note: func(string) {}}
	return its
}

// verb runs a command and returns its messages. With all, the jobs may belong to any file of the run.
func (m *webBatch) verb(all bool, run func(*app) error) (said []string, err error) {
	var out bytes.Buffer
	its := m.source.within(m.StateDir, &out)
	its.allFiles = all
	err = run(its)
	for line := range strings.Lines(out.String()) {
		said = append(said, strings.TrimRight(line, "\n"))
	}
	return said, err
}

// below returns the real path of a job file below one of the roots.
func (s *webSource) below(file string) (string, error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.roots[0], file)
	}
	real, err := filepath.EvalSymlinks(file)
	within := func(root string) bool { return host.Inside(root, real) }
	if err != nil || !slices.ContainsFunc(s.roots, within) {
		return "", &batches.Failure{Code: batches.ExitUsage, Text: quoted(file) + " is not a job file below " + strings.Join(s.roots, ", ")}
	}
	if err := disk.CheckOwnership(real); err != nil {
		return "", &batches.Failure{Code: batches.ExitFailed, Text: "not started: " + err.Error(), Err: err}
	}
	return real, nil
}

// Start starts a run of job files in the background. It first runs plan, restricted to the roots,
// to find errors.
func (s *webSource) Start(r web.Start) ([]string, error) {
	var args []string
	if s.StateDir != "" {
		args = append(args, "--state-dir="+session.Absolute(s.StateDir))
	}
	if s.cmd.Sim != "" {
		args = append(args, "--sim="+s.cmd.Sim)
	}
	for _, name := range web.StartOptions {
		for _, value := range r.Options[name] {
			args = append(args, "--"+name+"="+value)
		}
	}
	for name := range r.Options {
		if !slices.Contains(web.StartOptions, name) {
			return nil, &batches.Failure{Code: batches.ExitUsage, Text: "option " + quoted(name) + " is not allowed here", Hint: "the options are " + strings.Join(web.StartOptions, ", ")}
		}
	}
	if len(r.Files) == 0 {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "files: name at least one job file"}
	}
	for _, file := range r.Files {
		real, err := s.below(file)
		if err != nil {
			return nil, err
		}
		args = append(args, "--job-file="+real)
	}
	if _, err := s.runs(false, append([]string{"plan", "--json"}, args...)); err != nil {
		return nil, err
	}
	run := []string{"run", "--detach"}
	if r.Yes {
		run = append(run, "--yes")
	}
	out, err := s.runs(true, append(run, args...))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(out), "\n"), nil
}

// runs runs a gpurun command, restricted to the roots unless free is set, and returns its output.
func (s *webSource) runs(free bool, args []string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var out, said bytes.Buffer
	cmd := child(ctx, self, s.roots, free, args)
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return out.String(), err
	}
	status := cmp.Or(statusCodes[exit.ExitCode()], http.StatusInternalServerError)
	if exit.ExitCode() == batches.ExitState { // it does not depend on whether a run answers
		status = http.StatusConflict
	}
	var doc schema.Problems
	if json.Unmarshal(out.Bytes(), &doc) == nil && len(doc.Problems) > 0 {
		return "", &web.Failure{Status: status, Text: doc.Problems[0].Text, More: doc.Problems}
	}
	text, hint := schema.SplitFailure(said.String())
	return "", &web.Failure{Status: status, Code: schema.FailureCode(exit.ExitCode()), Text: text, Hint: hint}
}

// startLimit is how long a client waits for a run to start.
const startLimit = 5 * time.Minute

// add appends a job to the batch's job file, if it is below a root.
func (m *webBatch) add(command []string) ([]string, error) {
	if len(command) == 0 {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "command: pass the program and its arguments"}
	}
	file, err := m.source.below(m.File)
	if err != nil {
		return nil, err
	}
	return m.verb(true, (&addCmd{File: file, Command: command}).Run)
}
