package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

const patience = time.Minute

// A scene is an engine with one attempt. Most of its commands wait for a line in a FIFO.
type scene struct {
	*testing.T
	dir    string
	engine *Local
	launch engine.Launch
	run    engine.Running
	slots  int
	end    *engine.Event // end that came with the last Running
}

func newScene(t *testing.T, commands ...string) *scene {
	t.Helper()
	s := &scene{T: t, dir: t.TempDir()}
	s.open()
	s.launch = s.prepare("first", commands...)
	return s
}

func (s *scene) open() {
	s.Helper()
	l, err := openLocal(engine.Config{Dir: s.dir})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { l.Close() })
	s.engine = l
}

func (s *scene) prepare(id string, commands ...string) engine.Launch {
	s.Helper()
	dir, attempts := filepath.Join(s.dir, id), filepath.Join(s.dir, "attempts")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.MkdirAll(attempts, 0o755)); err != nil {
		s.Fatal(err)
	}
	journal, err := os.OpenFile(filepath.Join(attempts, "run"+state.JournalSuffix), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		s.Fatal(err)
	}
	journal.Close()
	s.slots++
	for _, name := range []string{"fifo", "up"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	log := filepath.Join(s.dir, id+".log")
	uniID := fmt.Sprintf("%s-%d-%s", id, os.Getpid(), filepath.Base(s.dir)+filepath.Base(filepath.Dir(s.dir)))
	s.Cleanup(func() { // for tests that fail before their jobs have ended
		for _, p := range new(procs.Census).Tree(uniID, nil, time.Now()) {
			_ = procs.Signal(p, unix.SIGKILL)
		}
	})
	return engine.Launch{
		Identity: engine.Identity{UniID: uniID, Job: id, Dir: filepath.Join(attempts, uniID), Grace: patience},
		Command: engine.Command{
			Shell: []string{"/bin/sh", "-c"}, Commands: commands, WorkDir: dir,
			Env: []string{"PATH=" + os.Getenv("PATH"), "GPURUN_UNI_ID=" + uniID},
		},
		Output: engine.Output{Stdout: log, Stderr: log}, Slot: state.Slot{Journal: journal.Name(), N: s.slots - 1},
	}
}

// start launches the attempt and waits until it is running.
func (s *scene) start() {
	s.Helper()
	s.engine.Launch(s.launch)
	ev := s.next()
	if ev.Running == nil {
		s.Fatalf("got %+v, want Running", ev)
	}
	s.run = *ev.Running
}

func (s *scene) next() engine.Event {
	s.Helper()
	if end := s.end; end != nil {
		s.end = nil
		return *end
	}
	select {
	case ev := <-s.engine.Events():
		if ev.Stopping != nil {
			ev.Stopping.Ack()
		}
		if ev.Running != nil && ev.Ended != nil { // callers wait for one or the other
			s.end = &engine.Event{UniID: ev.UniID, Ended: ev.Ended}
			ev.Ended = nil
		}
		return ev
	case <-time.After(patience):
		s.Fatal("no event within a minute")
		return engine.Event{}
	}
}

// ended waits for the end, skipping other events.
func (s *scene) ended() state.End {
	s.Helper()
	for {
		if ev := s.next(); ev.Ended != nil {
			return *ev.Ended
		}
	}
}

func (s *scene) adopt() { s.engine.Adopt(s.attempt()) }

func (s *scene) attempt() engine.Attempt {
	return engine.Attempt{
		Identity: engine.Identity{UniID: s.launch.UniID, Job: s.launch.Job, Dir: s.launch.Dir, Grace: s.launch.Grace}, Started: s.run.Started,
	}
}

// keeper returns the parent of the attempt's process.
func (s *scene) keeper() procs.ID {
	s.Helper()
	p, ok := procs.One(s.run.PID)
	if !ok {
		s.Fatal("the job is gone")
	}
	k, ok := procs.One(p.Parent)
	if !ok || k.PID == os.Getpid() {
		s.Fatalf("the parent of the job is %+v, want a keeper", k)
	}
	return k.ID
}

func (s *scene) killKeeper() {
	s.Helper()
	k := s.keeper()
	if err := unix.Kill(k.PID, unix.SIGKILL); err != nil {
		s.Fatal(err)
	}
	s.awaitGone(k)
}

// rewrite changes the attempt's record.
func (s *scene) rewrite(change func(rec *wire.Record)) {
	s.Helper()
	rec, err := wire.Find(s.launch.Dir, s.launch.UniID)
	if err != nil {
		s.Fatal(err)
	}
	change(rec)
	putRecord(s.T, s.launch.Dir, rec)
}

func (s *scene) awaitGone(id procs.ID) {
	s.Helper()
	quit := make(chan struct{})
	t := time.AfterFunc(patience, func() { close(quit) })
	defer t.Stop()
	procs.Await([]procs.ID{id}, quit)
	if procs.Alive(id) {
		s.Fatalf("process %d is still running", id.PID)
	}
}

func (s *scene) goOn() {
	s.Helper()
	f, err := os.OpenFile(filepath.Join(s.launch.WorkDir, "fifo"), os.O_RDWR, 0)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { f.Close() })
	if _, err := f.WriteString("go\n"); err != nil {
		s.Fatal(err)
	}
}

// hear waits for a line that the job writes to its FIFO up.
func (s *scene) hear() {
	s.Helper()
	f, err := os.OpenFile(filepath.Join(s.launch.WorkDir, "up"), os.O_RDWR, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	heard := make(chan error, 1)
	go func() {
		_, err := f.Read(make([]byte, 16))
		heard <- err
	}()
	select {
	case err := <-heard:
		if err != nil {
			s.Fatal(err)
		}
	case <-time.After(patience):
		s.Fatal("the job wrote no line within a minute")
	}
}

func (s *scene) log() string {
	b, _ := os.ReadFile(s.launch.Stdout)
	return string(b)
}

func lostOutcome(e state.End) string {
	return fmt.Sprintf("exit %d %s why %q lost %v void %v", e.ExitCode, e.Signal, e.Why, e.Lost, e.Void)
}

const lostRunning = `exit -1  why "" lost true void false`

func TestJobOutlivesKilledKeeper(t *testing.T) {
	s := newScene(t, "read x <fifo; echo $x", "echo second")
	s.start()
	s.killKeeper()
	s.goOn()
	if got := lostOutcome(s.ended()); got != lostRunning {
		t.Errorf("ended as %s", got)
	}
	if got := s.log(); got != "go\n" {
		t.Errorf("log = %q, want output of the first command only", got)
	}
	s.launch = s.prepare("next", "echo next")
	s.start()
	if got := s.ended(); got.ExitCode != 0 {
		t.Errorf("an attempt under a new keeper ended as %+v", got)
	}
}

func TestJobOutlivesKeeperAndRunner(t *testing.T) {
	for _, how := range []string{"by itself", "stopped", "timeout", "only a daemon survives"} {
		t.Run(how, func(t *testing.T) {
			s := newScene(t, "read x <fifo; echo $x")
			want := lostRunning
			if how == "only a daemon survives" {
				s.launch.Commands[0] = "setsid sh -c '(echo up >up; read x <fifo) &'; exec sleep 1000"
				s.launch.Tree = true // otherwise, leftover processes would be ended
			}
			if how == "timeout" {
				s.launch.Timeout = time.Hour
			}
			s.start()
			s.engine.Close()
			s.killKeeper()
			if how == "only a daemon survives" {
				s.hear()
				unix.Kill(s.run.PID, unix.SIGKILL)
				s.awaitGone(procs.ID{PID: s.run.PID, Start: s.run.PIDStart})
			}
			if how == "timeout" { // now, because the keeper must not see it expire
				s.rewrite(func(rec *wire.Record) { rec.Timeout -= time.Hour - 300*time.Millisecond })
			}
			s.open()
			s.adopt()
			ev := s.next()
			if ev.Running == nil || !ev.Running.Adopted || ev.Running.PID != s.run.PID {
				t.Fatalf("got %+v, want Running of %d, adopted", ev, s.run.PID)
			}
			switch how {
			case "stopped":
				s.engine.Stop(s.launch.UniID, state.WhyCancelled, engine.Term)
				want = strings.Replace(want, `""`, `"cancelled"`, 1)
			case "timeout":
				want = strings.Replace(want, `""`, `"timeout"`, 1)
			default:
				s.goOn()
			}
			if got := lostOutcome(s.ended()); got != want {
				t.Errorf("ended as %s, want %s", got, want)
			}
		})
	}
}

// A job that is saving its work while keeper and runner are killed is stopped by the next runner.
func TestSavingJobIsStoppedAfterKills(t *testing.T) {
	s := newScene(t, "trap 'echo saved >up' USR1; echo up >up; while test -d $PWD; do sleep 0.02; done")
	s.launch.Shell = []string{"bash", "-c"}
	s.start()
	s.hear()
	s.engine.Save(s.launch.UniID, state.WhyResize, "USR1", time.Hour)
	if ev := s.next(); ev.Stopping == nil {
		t.Fatalf("got %+v, want Stopping", ev)
	} else {
		ev.Stopping.Ack()
	}
	s.hear()
	s.engine.Close()
	s.killKeeper()
	var until time.Duration
	s.rewrite(func(rec *wire.Record) {
		if left := rec.Save - host.Boottime(); left <= 0 || left > time.Hour {
			t.Errorf("the record leaves %v for saving, want less than an hour", left)
		}
		until = host.Boottime() + 500*time.Millisecond
		rec.Save = until
	})
	s.open()
	s.adopt()
	want := strings.Replace(lostRunning, `""`, `"resize"`, 1)
	if got := lostOutcome(s.ended()); got != want {
		t.Errorf("ended as %s, want %s", got, want)
	}
	if early := until - host.Boottime(); early > 0 {
		t.Errorf("stopped %v before its time to save had passed", early)
	}
}

// A timeout applies even without keeper and runner. The next runner sends the job's own signal.
func TestTimeoutComesWithoutKeeperAndRunner(t *testing.T) {
	s := newScene(t, "trap 'echo saved; exit' USR1; echo up >up; while test -d $PWD; do sleep 0.02; done")
	s.launch.Shell = []string{"bash", "-c"}
	s.launch.Timeout, s.launch.TimeoutSignal = time.Hour, &engine.TimeoutSignal{Signal: "USR1", Grace: time.Hour}
	s.start()
	s.hear()
	s.engine.Close()
	s.killKeeper()
	s.rewrite(func(rec *wire.Record) { rec.Timeout -= time.Hour - 1 })
	s.open()
	s.adopt()
	want := strings.Replace(lostRunning, `""`, `"timeout"`, 1)
	if got := lostOutcome(s.ended()); got != want {
		t.Errorf("ended as %s, want %s", got, want)
	}
	if got := s.log(); got != "saved\n" {
		t.Errorf("log = %q", got)
	}
}

// If keeper, runner and all processes of an attempt are killed, the attempt is lost, and its next
// command cannot begin.
func TestAttemptIsLostIfAllIsKilled(t *testing.T) {
	s := newScene(t, "read x <fifo", "echo second")
	s.start()
	s.engine.Close()
	s.killKeeper()
	unix.Kill(s.run.PID, unix.SIGKILL)
	s.awaitGone(procs.ID{PID: s.run.PID, Start: s.run.PIDStart})
	s.open()
	s.adopt()
	if got := lostOutcome(s.ended()); got != lostRunning {
		t.Errorf("ended as %s", got)
	}
	if !wire.Forbidden(s.launch.Dir) {
		t.Error("the second command is not forbidden")
	}
}

func TestTimeoutWithoutRunner(t *testing.T) {
	s := newScene(t, "read x <fifo")
	s.launch.Timeout = 200 * time.Millisecond
	s.start()
	id := procs.ID{PID: s.run.PID, Start: s.run.PIDStart}
	s.engine.Close()
	s.awaitGone(id)
	s.open()
	s.adopt()
	if got := s.ended(); got.Why != state.WhyTimeout || got.Signal != "SIGTERM" {
		t.Errorf("ended as %+v", got)
	}
}

func TestKeeperExitsAfterItsLastJob(t *testing.T) {
	s := newScene(t, "read x <fifo; exit 4")
	s.start()
	k := s.keeper()
	s.engine.Close()
	if !procs.Alive(k) {
		t.Fatal("the keeper exited before its job")
	}
	s.goOn()
	s.awaitGone(k)
	if names, _ := filepath.Glob(filepath.Join(s.dir, socketPattern)); len(names) != 0 {
		t.Errorf("leftover sockets: %v", names)
	}
	rec, err := wire.Find(s.launch.Dir, s.launch.UniID)
	if err != nil || rec.State != wire.StateOver || rec.ExitCode != 4 {
		t.Errorf("record = %+v, %v", rec, err)
	}
	if b, _ := os.ReadFile(filepath.Join(s.dir, "keeper.log")); len(b) != 0 {
		t.Errorf("keeper.log contains %q, want nothing", b)
	}
}

// A terminal's signals do not affect the keeper. Jobs start with default handling of signals.
func TestKeeperIgnoresTerminal(t *testing.T) {
	s := newScene(t, "while read -r k v; do case $k in SigIgn:) echo $v;; esac; done </proc/self/status; read x <fifo; exit 4")
	s.start()
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT} {
		unix.Kill(s.keeper().PID, sig)
	}
	s.goOn()
	if got := s.ended(); got.ExitCode != 4 || got.Lost {
		t.Errorf("ended as %+v", got)
	}
	// libc reserves signals 32 and 33; the process that started the tests may ignore them.
	const libc = 1<<31 | 1<<32
	got, err := strconv.ParseUint(strings.TrimSpace(s.log()), 16, 64)
	if err != nil || got&^libc != 0 {
		t.Errorf("ignored signals of a job: %x, %v", got, err)
	}
}

func TestLongFolderNameWorks(t *testing.T) {
	s := &scene{T: t, dir: filepath.Join(t.TempDir(), strings.Repeat("d", 200))}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.open()
	s.launch = s.prepare("first", "read x <fifo; exit 4")
	s.start()
	s.engine.Close()
	s.open()
	s.adopt()
	s.goOn()
	if got := s.ended(); got.ExitCode != 4 {
		t.Errorf("ended as %+v", got)
	}
}

// Daemons that only their keeper can find, as its children, must end with their attempts.
func TestHiddenDaemonsAreAssigned(t *testing.T) {
	hide := "setsid env -i PATH=$PATH sh -c '(cd /; exec sleep 1000 >/dev/null 2>&1) &'; "
	s := newScene(t, hide+"read x <fifo")
	s.start()
	first := s.launch
	k := s.keeper()
	s.launch = s.prepare("second", hide+"read x <fifo")
	s.start()
	for _, l := range []engine.Launch{first, s.launch} {
		s.launch = l
		s.goOn()
		s.ended()
	}
	for _, p := range procs.Read() {
		if p.Parent == k.PID && !p.Zombie {
			t.Errorf("leftover process %d", p.PID)
		}
	}
}
