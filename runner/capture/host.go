package capture

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sys/unix"

	"gpurun/jobspec"
	"gpurun/jobspec/fold"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
)

// host is the state of the child that answers the recorders.
type host struct {
	Config
	report Report
	listen int
	log    *os.File // the launcher's output

	launcher     int          // PID
	running      map[int]bool // PIDs of programs that the host started
	jobs         []*job       // submitted to the fake batch system
	paths        map[procs.ID][]procs.ID
	held, sleeps []*held
	waits        []*held              // recorders that wait for submitted jobs to end, or for tmux wait-for -S
	signals      map[string]bool      // channels that tmux wait-for -S signaled, but no wait-for has received
	panes        []*pane              // of tmux and screen, the most recently selected one last
	base         map[string]int       // tmux's base-index and pane-base-index; nil before the first tmux command
	closed       []closing            // panes closed since all processes last slept
	reals        map[int]bool         // PIDs of recorders that became the programs they cover
	named        map[string]time.Time // modification times of the files that commands name
	records      []*held              // all commands that did not run
	step         int                  // number of commands released so far
	polls        int                  // number of sleeps that ended since a command last began or ended
	clock        float64              // the launcher's virtual time, in seconds
	changed      time.Time            // when a command last began or ended, or a job was last submitted
	blind        bool                 // the kernel does not report where threads sleep
}

// A held recorder waits for the host: a command until it may end, a sleep until its time.
type held struct {
	message
	conn  *os.File
	until float64
	path  []procs.ID // of a recorded command
}

// A job is one submission to the fake batch system, or one task of an array.
type job struct {
	message
	path []procs.ID // of the process that submitted it
	pid  int        // 0 before it begins, -1 when it has ended
}

const (
	maxHeld    = 500
	maxThreads = 4000
	maxRecords = 5000
	maxWhole   = 15 * time.Minute
	maxReport  = 30 // seconds from a recorder's connection to its message
	maxPolls   = 3  // polls per sleeper before a command is released
	maxIdle    = 30 // polls per sleeper before a loop in the background counts as a monitor
)

// serve starts the programs and answers the recorders until all of them have ended.
func (h *host) serve() (err error) {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // no other process may write to our open files
	h.running, h.reals, h.signals, h.paths, h.named, h.changed = map[int]bool{}, map[int]bool{}, map[string]bool{}, map[procs.ID][]procs.ID{}, map[string]time.Time{}, time.Now()
	if h.listen, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err == nil {
		err = unix.Bind(h.listen, &unix.SockaddrUnix{Name: h.Home + "/sock"})
	}
	if err == nil {
		h.log, err = os.OpenFile(h.Home+"/log", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	}
	if err != nil {
		return err
	}
	_ = unix.Listen(h.listen, 4096)
	all, _ := filepath.Glob("/proc/self/task/*/wchan")
	h.blind = !slices.ContainsFunc(all, func(f string) bool { where, _ := os.ReadFile(f); return string(where) != "0" })
	if h.Sandbox {
		unix.CloseOnExec(h.Uppers)
	}
	defer h.end()
	for start, n := time.Now(), 0; h.report.Stopped == ""; {
		for ; n < len(h.Programs) && len(h.running) < 4; n++ {
			if h.launcher, err = h.start(h.Programs[n], nil); err != nil {
				return err
			}
		}
		fds := []unix.PollFd{{Fd: int32(h.listen), Events: unix.POLLIN}, {Fd: 0}}
		if _, _ = unix.Poll(fds, 2); fds[1].Revents != 0 {
			return nil // gpurun has exited
		}
		if fi, err := h.log.Stat(); err == nil && fi.Size() > 1<<20 {
			_ = h.log.Truncate(0)
		}
		switch one, count := h.sleepCounts(); {
		case count > h.Most+2*min(len(h.held)+len(h.running), maxHeld): // a submitted job is a shell and its command
			h.report.Stopped = fmt.Sprintf("stopped: the launcher runs more than %d processes at the same time", h.Most)
		case time.Since(h.changed) > h.Limit:
			h.report.Stopped = fmt.Sprintf("stopped: the launcher started no command for %v", h.Limit)
		case len(h.records) > maxRecords || time.Since(start) > maxWhole:
			h.report.Stopped = fmt.Sprintf("stopped: the launcher started %d commands and did not end", len(h.records))
		case h.drain() || h.reap():
		default:
			// Two equal results mean that every thread was asleep when the first call returned. reap
			// and drain come last, because the kernel reports a process as ended a moment before it
			// wakes the parent.
			if two, _ := h.sleepCounts(); one == "" || one != two || h.reap() || h.drain() {
				continue
			}
			h.noteClosed()
			if len(h.running)+len(h.held) == 0 && (len(h.sleeps) == 0 || h.polls > maxIdle*len(h.sleeps)) && n == len(h.Programs) && !slices.ContainsFunc(h.jobs, func(j *job) bool { return j.pid == 0 }) {
				return nil
			}
			h.releaseNext()
		}
	}
	return nil
}

// drain handles all pending messages of recorders, and reports whether there were any.
func (h *host) drain() (some bool) {
	for {
		fd, _, err := unix.Accept4(h.listen, unix.SOCK_CLOEXEC)
		if err != nil {
			return some
		}
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: maxReport})
		x := &held{conn: os.NewFile(uintptr(fd), "recorder")}
		if some, err = true, json.NewDecoder(x.conn).Decode(&x.message); err == nil {
			h.handle(x)
			continue
		} else if errors.Is(err, unix.EAGAIN) { // without its command, the capture would be incomplete
			h.report.Stopped = fmt.Sprintf("stopped: recording a command took longer than %ds; try again when this machine is less busy", maxReport)
		}
		x.conn.Close()
	}
}

func (x *held) answer(a message) {
	_ = json.NewEncoder(x.conn).Encode(a)
	x.conn.Close()
}

func (h *host) runReal(x *held) {
	h.reals[x.PID] = true
	x.answer(message{Real: true})
}

// watch stops the launcher if a process is an interpreter that started without a recorder.
func (h *host) watch(pid int) {
	at := fmt.Sprintf("/proc/%d/", pid)
	exe, argv := link(at+"exe"), strings.Split(strings.TrimSuffix(procs.Cmdline(pid), "\x00"), "\x00")
	if !h.Sandbox || !python(exe) || strings.HasPrefix(exe, h.Home) || h.reals[pid] || argv[0] == "" || h.real(&held{message: message{PID: pid, Record: Record{Argv: argv, Stdin: link(at + "fd/0")}}}) {
		return
	}
	file, err := os.Stat(at + "exe")
	if self, err2 := os.Stat(h.Self); err == nil && err2 == nil && file.Size() != self.Size() { // not a recorder, or a copy of one, that is about to report
		h.report.Escaped, h.report.Stopped = exe, "stopped: the launcher runs "+exe+", which gpurun capture cannot record"
	}
}

func (h *host) handle(x *held) {
	switch argv := x.Record.Argv; {
	case x.Bad != "" && (x.Op != "command" || !h.real(x)):
		h.report.Stopped = "stopped: " + notText + x.Bad
		x.conn.Close()
	case x.Op == "sleep" && !h.Proof:
		x.until = h.clock + max(0, x.Seconds)
		h.sleeps = append(h.sleeps, x)
	case x.Op == "wait":
		h.waits = append(h.waits, x)
	case x.Op == "submit":
		h.changed = time.Now()
		j, id := &job{message: x.message, path: h.path(x.PID)}, len(h.jobs)+1
		h.jobs, j.Group = append(h.jobs, j), cmp.Or(j.Group, id)
		j.Record.Env = append(j.Record.Env, fmt.Sprint("SLURM_JOB_ID=", id), fmt.Sprint("SLURM_JOBID=", id), fmt.Sprint("SLURM_ARRAY_JOB_ID=", j.Group))
		x.answer(message{Group: j.Group})
	case x.Op == "command" && len(argv) > 0 && !h.Proof && !match(h.Record, argv) && !match(h.Run, argv) && containerTool().MatchString(strings.Join(argv, " ")):
		note(&h.report.Warnings, "neither recorded nor run: "+strings.Join(argv[:2], " ")+"; if the jobs need this command, run it before them")
		x.answer(message{})
	case x.Op == "command" && len(argv) > 0:
		h.changed, h.polls = time.Now(), 0
		x.Record.Began = h.step
		h.compare(&x.Record)
		if h.real(x) {
			h.runReal(x)
		} else if h.held = append(h.held, x); h.Proof {
			h.record(x)
			h.release(x)
		}
	case x.Op == "terminal":
		h.terminal(x)
	default:
		x.answer(message{})
	}
}

// compare warns if a file that a command names has changed since an earlier command named it.
func (h *host) compare(r *Record) {
	for _, w := range r.Argv[1:] {
		path := pathIn(r.Dir, w[strings.IndexByte(w, '=')+1:])
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && !h.Proof {
			if old, ok := h.named[path]; ok && !old.Equal(fi.ModTime()) {
				note(&h.report.Warnings, "the launcher changes "+w+" between commands that use it, but all jobs get the same file: write one file for each job")
			}
			h.named[path] = fi.ModTime()
		}
	}
}

func match(globs []string, argv []string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return jobspec.Glob(g).MatchString(strings.Join(argv, " ")) })
}

// real reports whether a command runs for real because of its arguments and standard input.
func (h *host) real(x *held) bool {
	argv, l := x.Record.Argv, h.Programs[0].Argv
	k, script := min(len(argv), len(l)), strings.HasSuffix(x.Record.Stdin, " (deleted)") && (len(argv) == 1 || argv[1] == "-") // standard input is a here-document
	a, b := argv[len(argv)-k:], l[len(l)-k:]
	return x.PID == h.launcher && !h.Proof && filepath.Base(a[0]) == filepath.Base(b[0]) && slices.Equal(a[1:], b[1:]) ||
		match(h.Run, argv) || !h.Proof && !match(h.Record, argv) && (script || condaName().MatchString(filepath.Base(argv[0])) && !slices.Contains(argv[1:min(2, len(argv))], "run") || python(argv[0]) && launcherPython().MatchString(strings.Join(argv[1:], " ")))
}

// reap collects ended processes. It then starts the jobs and answers the recorders that waited for
// them. It reports whether it did anything.
func (h *host) reap() (some bool) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if err != nil || pid <= 0 {
			break
		}
		if delete(h.running, pid); pid == h.launcher {
			h.launcher = 0
			if h.report.Status = ws.ExitStatus(); ws.Signaled() {
				h.report.Status = 128 + int(ws.Signal())
			}
		}
		for _, j := range h.jobs {
			if j.pid == pid {
				j.pid = -1
			}
		}
		some = true
	}
	open := map[int]bool{} // groups with a job that has not ended
	for _, j := range h.jobs {
		open[j.Group] = open[j.Group] || j.pid >= 0
	}
	waits := func(m message) bool {
		return m.Channel != "" || slices.ContainsFunc(m.After, func(id int) bool { return open[id] })
	}
	h.waits = slices.DeleteFunc(h.waits, func(x *held) bool {
		if waits(x.message) {
			return false
		}
		x.answer(message{})
		some = true
		return true
	})
	for _, j := range h.jobs {
		if j.pid == 0 && !waits(j.message) {
			some = true
			h.begin(j, nil)
		}
	}
	return some
}

// begin starts a job.
func (h *host) begin(j *job, stdin io.Reader) {
	j.pid = -1
	if pid, err := h.start(j.Record, stdin); err == nil {
		j.pid = pid
		if p, ok := procs.One(pid); ok { // makes inOrder place the job's commands where the launcher submitted the job
			h.paths[p.ID] = append(slices.Clip(j.path), p.ID)
		}
	}
}

// start starts a program as a child of the host.
func (h *host) start(p Record, stdin io.Reader) (int, error) {
	if h.Sandbox {
		_ = os.MkdirAll(p.Dir, 0o755) // the launcher may have created it in another sandbox
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", `exec "$0" "$@"`}, p.Argv...)...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.Dir, stdin, h.log, h.log, &syscall.SysProcAttr{Setsid: true}
	// Make Bash write here-documents to files, so that recorders can tell them from pipes between
	// programs.
	cmd.Env = append(p.Env, "GPURUN_CAPTURE="+h.Home, "GPURUN_CAPTURE_GPUS="+strconv.Itoa(h.GPUs), "BASH_COMPAT=5.0")
	for name, dir := range map[string]string{"PATH": h.Home + "/bin", "PYTHONPATH": h.Home + "/py"} {
		if old := engine.Variable(p.Env, name); !strings.HasPrefix(old+":", dir+":") {
			cmd.Env = append(cmd.Env, name+"="+strings.TrimSuffix(dir+":"+old, ":"))
		}
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	h.running[pid] = true
	_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: maxThreads, Max: maxThreads}, nil)
	return pid, cmd.Process.Release()
}

// tree returns the processes below the host, including those that are exiting.
func (h *host) tree() (list []procs.ID) {
	table, set := procs.Read(), map[int]bool{os.Getpid(): true}
	table.Children().Add(set)
	delete(set, os.Getpid())
	for pid := range set {
		list = append(list, table[pid].ID)
	}
	slices.SortFunc(list, procs.ID.Compare)
	return list
}

// sleepCounts returns a string that shows how often each thread has gone to sleep, or "" if one is
// awake. If two such strings are equal, no thread ran in between, because a thread that ran would have
// gone to sleep once more. Held recorders are skipped. count is the number of processes, including
// held recorders.
func (h *host) sleepCounts() (sleeping string, count int) {
	known, list := map[int]bool{}, h.tree()
	for _, x := range slices.Concat(h.held, h.sleeps, h.waits) {
		known[x.PID] = true
	}
	b, awake := "asleep", false
	for _, id := range list {
		if known[id.PID] {
			continue
		}
		if h.watch(id.PID); awake {
			continue
		}
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", id.PID))
		for _, t := range tasks {
			data, _ := os.ReadFile(t + "/status")
			_, state, _ := strings.Cut(string(data), "\nState:\t")
			_, switches, _ := strings.Cut(state, "\nvoluntary_ctxt_switches:")
			where, _ := os.ReadFile(t + "/wchan")
			// X means exiting. A thread preempted on its way to sleep is in state S, but has no
			// wait channel yet.
			awake = awake || state == "" || strings.Contains("RDX", state[:1]) || state[0] == 'S' && string(where) == "0" && !h.blind
			b += t + state[:min(1, len(state))] + switches
		}
	}
	return map[bool]string{false: b}[awake], len(list)
}

// path returns the processes and threads from the host down to a process, as they were when that
// process was first seen.
func (h *host) path(pid int) []procs.ID {
	p, ok := procs.One(pid)
	if !ok || pid == os.Getpid() {
		return nil
	}
	if h.paths[p.ID] == nil {
		path := slices.Clip(h.path(p.Parent))
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Parent))
		for _, list := range lists { // find the parent's thread that started the process, unless that is the main thread
			tid, _ := strconv.Atoi(filepath.Base(filepath.Dir(list)))
			data, _ := os.ReadFile(list)
			if t, ok := procs.One(tid); ok && tid != p.Parent && p.Parent != os.Getpid() && slices.Contains(strings.Fields(string(data)), strconv.Itoa(pid)) {
				path = append(path, t.ID)
			}
		}
		h.paths[p.ID] = append(path, p.ID)
	}
	return h.paths[p.ID]
}

// inOrder compares commands by the order in which a launcher starts them.
func inOrder(a, b *held) int { return slices.CompareFunc(a.path, b.path, procs.ID.Compare) }

// releaseNext releases one sleep or one command, or lets a command run for real. serve calls it
// only when nothing else is happening.
func (h *host) releaseNext() {
	for i, x := range h.held {
		if x.path == nil && h.record(x) {
			h.held = slices.Delete(h.held, i, i+1)
			h.runReal(x)
			return
		}
	}
	slices.SortStableFunc(h.sleeps, func(a, b *held) int { return cmp.Compare(a.until, b.until) })
	slices.SortStableFunc(h.held, inOrder)
	if n := len(h.held); len(h.sleeps) > 0 && (h.polls < maxPolls*len(h.sleeps) || n == 0) {
		x := h.sleeps[0]
		h.sleeps, h.clock, h.polls = h.sleeps[1:], max(h.clock, x.until), h.polls+1
		x.answer(message{})
	} else if n > 0 {
		h.release(h.held[map[bool]int{false: n - 1}[h.Oldest]])
	}
}

// release releases a command, which then ends.
func (h *host) release(x *held) {
	h.held = slices.DeleteFunc(h.held, func(y *held) bool { return y == x })
	h.step++
	x.Record.Ended, h.polls, h.changed = h.step, 0, time.Now()
	x.answer(message{})
}

// record records a command. It returns true instead if the command must run for real, because it is
// Python and a shell reads its output.
func (h *host) record(x *held) (real bool) {
	r, text := &x.Record, strings.Join(x.Record.Argv, " ")
	for i, to := range []*string{&r.Stdin, &r.Stdout, &r.Stderr} {
		pipe := *to
		if info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/0", x.PID)); i == 0 && !strings.HasPrefix(string(info), "pos:\t0\n") {
			pipe = "" // the launcher itself reads this file, as in a while read loop
		}
		if filepath.IsAbs(pipe) && !strings.HasPrefix(pipe, "/dev/") && !strings.HasPrefix(pipe, h.Home) && !strings.Contains(pipe, " (deleted)") {
			continue
		}
		if *to = ""; i > 0 && !h.Proof && strings.HasPrefix(pipe, "pipe:") {
			shell, read, file := h.reader(x.PID, pipe)
			if *to = file; read && shell && i == 1 && python(r.Argv[0]) && !match(h.Record, r.Argv) {
				note(&h.report.Warnings, "ran for real: "+text+"; --record "+shellescape.Quote(text)+" makes it a job")
				return true
			} else if read && i == 1 {
				note(&h.report.Warnings, "the launcher reads the output of "+fold.Script(fold.Words(r.Argv))+", which was empty")
			}
		}
	}
	// The process may have been a shell with background children. Sort it after those.
	x.path = append(slices.Clip(h.path(x.PID)), procs.ID{PID: x.PID, Start: 1 << 62})
	h.records = append(h.records, x)
	return false
}

// readers are programs that use the output of a child as text.
var readers = strings.Fields("sh bash dash zsh ksh make gmake")

// reader finds the program that reads a pipe. If that is tee, possibly after filters, file is the file
// that tee writes. Otherwise, read is set, and shell is set if the program is a shell or make and
// started the writer.
func (h *host) reader(writer int, pipe string) (shell, read bool, file string) {
	for _, id := range h.tree() {
		at := fmt.Sprintf("/proc/%d/", id.PID)
		fds, _ := os.ReadDir(at + "fd")
		words := strings.Split(procs.Cmdline(id.PID), "\x00")
		name := strings.TrimPrefix(filepath.Base(words[0]), "-")
		for _, fd := range fds {
			info, _ := os.ReadFile(at + "fdinfo/" + fd.Name())
			_, flags, _ := strings.Cut(string(info), "flags:")
			if flags, _, _ = strings.Cut(flags, "\n"); link(at+"fd/"+fd.Name()) != pipe || !strings.HasSuffix(flags, "0") {
				continue // it is the write end
			}
			if i := slices.IndexFunc(words[1:], func(w string) bool { return w != "" && w[0] != '-' }); name == "tee" && i >= 0 {
				return false, false, pathIn(link(at+"cwd"), words[1+i])
			} else if id.PID != writer && slices.Contains(h.path(writer), id) {
				return slices.Contains(readers, name), true, ""
			} else if out := link(at + "fd/1"); strings.HasPrefix(out, "pipe:") && out != pipe {
				_, _, file = h.reader(id.PID, out) // it may be a filter in front of another reader
			}
			return false, file == "", file
		}
	}
	return false, false, ""
}

// end sorts the commands in the launcher's order and kills all remaining processes.
func (h *host) end() {
	slices.SortStableFunc(h.records, inOrder)
	for _, x := range h.records {
		if x.Record.Ended == 0 {
			x.Record.Ended = maxRecords * 2
		}
		h.report.Commands = append(h.report.Commands, x.Record)
	}
	if h.Sandbox && !h.Proof {
		h.report.Changes = h.changes()
	}
	h.unread()
	data, _ := os.ReadFile(h.Home + "/log")
	text := strings.TrimSpace(string(data))
	h.report.Last = text[strings.LastIndexByte(text, '\n')+1:]
	if at := strings.Index(text, "Value too large for defined data type"); at >= 0 && h.Sandbox && h.report.Stopped == "" { // see mirror
		line, _, _ := strings.Cut(text[strings.LastIndexByte(text[:at], '\n')+1:], "\n")
		h.report.Stopped = "the launcher cannot write to a file of another user or group: " + line + "; run the capture in a copy of the folder"
	}
	places := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(\S+: (?:line )?\d+): .*`).FindAllStringSubmatch(text, -1) {
		if !places[m[1]] && len(places) < 5 {
			places[m[1]] = true
			note(&h.report.Warnings, "the launcher's shell reports an error: "+m[0])
		}
	}
	// In the sandbox, the remaining processes die with this one.
	for list, until := h.tree(), time.Now().Add(10*time.Second); !h.Sandbox && len(list) > 0 && time.Now().Before(until); list = h.tree() {
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // a stopped process starts no others
			for _, id := range list {
				_ = procs.Signal(id, sig)
			}
		}
		h.reap()
	}
}
