package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/keeper"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// A report is a message from the outer process to the keeper. If the pipe closes, the outer process
// was killed.
type report struct {
	End   bool       `json:"end,omitempty"` // the cluster wants the task to end
	Usage *nodeUsage `json:"usage,omitempty"`
}

// send writes the report to the keeper, in a single write.
func (r report) send(to io.Writer) { _ = json.NewEncoder(to).Encode(r) }

// stopEvery is how often a keeper looks for a request.
const stopEvery = 2 * time.Second

// keepArg is the last argument of the keeper.
const keepArg = "keep"

// Task is the main function of `gpurun __task SUBMISSION [VARIABLE]`, which the cluster starts on a
// node. VARIABLE is Traits.Granted. A task is two processes. The outer one belongs to the cluster:
// it forwards the cluster's signals and exits with the job's status. The keeper, in a session of
// its own, runs the attempt. If the outer process is killed, the keeper ends the job and records
// the reason.
func (all Dialects) Task(args []string) int {
	inner := len(args) > 1 && args[len(args)-1] == keepArg
	if inner {
		args = args[:len(args)-1]
	}
	if len(args) != 1 && len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gpurun __task SUBMISSION [VARIABLE] (only for clusters)")
		return 64
	}
	variable := strings.Join(args[1:], "")
	here, err := all.node()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	if inner {
		return here.keep(args[0], variable)
	}
	useGranted(variable)
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGXCPU)
	cmd := exec.Command("/proc/self/exe", append(append([]string{"__task"}, args...), keepArg)...)
	cmd.Args[0] = "gpurun"
	cmd.Stdin, cmd.Stderr = r, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	r.Close()
	go func() {
		for s := range signals {
			if s != unix.SIGUSR1 { // SIGUSR1: Grid Engine is about to suspend the task, which the keeper notices by itself
				report{End: true}.send(w)
			}
		}
	}()
	go here.measure(args[0], w)
	_ = cmd.Wait()
	return safeStatus(cmd.ProcessState.ExitCode())
}

// safeStatus replaces exit statuses with a special meaning: Grid Engine reruns a job that exits
// with 99, and stops scheduling one that exits with 100.
func safeStatus(status int) int {
	switch status {
	case 99, 100:
		return 98
	case -1:
		return 128 + 9
	}
	return status
}

// keep runs one attempt.
func (n *node) keep(submission, variable string) int {
	at := place{Submit: submission, Task: n.N}
	l, err := at.launch()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	dir := l.Dir
	s, _ := readStatus(dir)
	if p, ok := s.place(); !ok || p.Submit != submission || p.Task != n.N {
		return 0 // the attempt is over, or was submitted again
	}
	switch err := claim(dir, n.Node+" "+n.Task); {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return 0 // another node has it, or the runner forbade it
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	t := &task{UniID: l.UniID, Host: n.Node, Beat: 1}
	t.GPUs, t.UUIDs = n.devices(os.Environ())
	if why := refuseUnknownGPUs(l, os.Environ(), n.Node, variable); why != "" {
		return refuse(l, wire.Record{Untold: true, End: state.End{Err: why}})
	}
	n.completeLaunch(l, submission, t)
	outer := newOuter(os.Stdin)
	if why, least := outer.unfit(l, t); why != "" {
		return refuse(l, wire.Record{Unfit: least, End: state.End{Err: why, Uncharged: why, Displaced: true, Lost: true, Void: true}}) // to be submitted again, without this node
	}
	return runAttempt(l, t, outer, at)
}

// refuse records why an attempt has not begun.
func refuse(l *engine.Launch, r wire.Record) int {
	r.State, r.UniID, r.ExitCode, r.Of = wire.StateOver, l.UniID, -1, wire.OriginOf(l)
	r.Started = time.Now()
	r.At = r.Started
	f, err := wire.OpenRecord(l.Dir, state.Slot{})
	if err == nil {
		err = errors.Join(r.Put(f), f.Sync(), f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// runAttempt runs the attempt to its end, and keeps the task's file up to date.
func runAttempt(l *engine.Launch, t *task, o *outerProcess, here place) int {
	var mu sync.Mutex
	put := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		if change(); t.put(l.Dir) != nil {
			_ = t.put(l.Dir) // a missed heartbeat does no harm, and the record has the rest
		}
	}
	put(func() {})
	asked := make(chan *wire.Message, 16)
	go func() {
		for range time.Tick(beatEvery) {
			put(func() { t.Beat++ })
		}
	}()
	go o.listen(here, asked)
	go o.watch(l, t, func(text string, sure bool) {
		if put(func() { t.Stray = text }); sure {
			asked <- &wire.Message{Op: wire.Stop, Why: state.WhyStray}
		}
	})
	ended, err := keeper.Single(l, keeper.Usual, func(m *wire.Message) {
		switch m.Op {
		case wire.Running:
			put(func() { t.Running = m.Running })
		case wire.Background:
			put(func() { t.Background = m.Background })
		}
	}, asked, o.peaks)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	switch {
	case ended.Signal != "":
		return 128 + int(unix.SignalNum(ended.Signal))
	case ended.ExitCode < 0:
		return 1
	}
	return ended.ExitCode
}

// An outerProcess receives the outer process's reports for the keeper.
type outerProcess struct {
	ends   chan struct{} // one value per request to end the task; closed when the outer process is killed
	gauged chan struct{} // closed at the first GPU reading
	gauge  atomic.Pointer[nodeUsage]
}

func newOuter(from io.Reader) *outerProcess {
	o := &outerProcess{ends: make(chan struct{}, 16), gauged: make(chan struct{})}
	o.gauge.Store(&nodeUsage{})
	go func() {
		defer close(o.ends)
		first := sync.OnceFunc(func() { close(o.gauged) })
		for in := json.NewDecoder(from); ; {
			var r report
			if in.Decode(&r) != nil {
				return
			}
			if r.End {
				o.ends <- struct{}{}
			}
			if r.Usage != nil {
				o.gauge.Store(r.Usage)
				first()
			}
		}
	}()
	return o
}

// peaks returns the peak memory of the GPUs so far.
func (o *outerProcess) peaks() (all []gpu.Peak, readings int) {
	g := o.gauge.Load()
	return slices.Clone(g.Peaks), g.Readings
}

// unfit returns a message if the task's GPUs have too little memory, and the memory of the
// smallest. If they have enough, it returns "" and 0.
func (o *outerProcess) unfit(l *engine.Launch, t *task) (why string, least gpu.Bytes) {
	if l.Request == nil || l.Request.GPUMemory == 0 || len(t.GPUs) == 0 {
		return "", 0
	}
	select {
	case <-o.gauged:
	case <-time.After(checkLimit):
	}
	if least = o.gauge.Load().smallestMemory(); least == 0 || least >= l.Request.GPUMemory {
		return "", 0
	}
	return fmt.Sprintf("%s assigned a GPU with %s, but the job needs %s", t.Host, least.Round(), l.Request.GPUMemory.Round()), least
}

// watch reports when the attempt is first seen on a GPU outside its grant, and again once that is
// certain.
func (o *outerProcess) watch(l *engine.Launch, t *task, tell func(text string, sure bool)) {
	for said := false; ; time.Sleep(stopEvery) {
		text, sure := o.gauge.Load().stray(l, t)
		sure = sure && (l.Request == nil || !l.Request.Strays)
		if sure || text != "" && !said {
			tell(text, sure)
			said = true
		}
		if sure {
			return
		}
	}
}

// listen turns requests from the outer process and the runner into messages to the keeper. If a
// cluster suspends only the outer process, listen suspends the job too.
func (o *outerProcess) listen(here place, asked chan<- *wire.Message) {
	ends := o.ends
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	last, tick, suspended := request{}, time.NewTicker(stopEvery), false
	for {
		if r := readRequest(here); r != last {
			last = r
			m := &wire.Message{Op: wire.Stop, Why: r.why}
			if r.how == "kill" {
				m.How = engine.Kill
			}
			asked <- m
		}
		select {
		case _, ok := <-ends:
			if !ok { // the outer process was killed
				asked <- &wire.Message{Op: wire.Stop, Why: state.WhyCluster, How: engine.Kill}
				ends = nil
			} else {
				asked <- &wire.Message{Op: wire.Stop, Why: state.WhyCluster}
			}
		case <-term:
			asked <- &wire.Message{Op: wire.Stop, Why: state.WhyCluster}
		case <-tick.C:
			was := suspended
			if suspended = ends != nil && procs.Stopped(os.Getppid()); suspended {
				asked <- &wire.Message{Op: wire.Suspend}
			} else if was {
				asked <- &wire.Message{Op: wire.Resume}
			}
		}
	}
}
