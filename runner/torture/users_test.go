package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gpurun/gpu"
)

// openTo lets other users read a place, and write to its journal, its claims and the named folders.
func (p *place) openTo(t *testing.T, names ...string) {
	t.Helper()
	for _, path := range []string{p.dir, gpurun} {
		for ; path != "/"; path = filepath.Dir(path) {
			if fi, err := os.Stat(path); err == nil && fi.Mode()&0o5 != 0o5 {
				_ = os.Chmod(path, fi.Mode()|0o5)
			}
		}
	}
	if !exists(p.journal) {
		p.write(t, "journal", "")
	}
	for _, name := range append(names, "journal") {
		if err := os.Chmod(filepath.Join(p.dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(p.dir, "claims"), os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
}

// belongTo assigns a lane to a user. Strict tests create a user with this name; other tests use
// uid, which need not exist in /etc/passwd.
func (l *lane) belongTo(t *testing.T, name string, uid uint32) {
	t.Helper()
	l.openTo(t, l.name, l.name+"/counts")
	l.user = uid
	if !strict() {
		return
	}
	name = "gpurun-" + name
	if _, err := user.Lookup(name); err != nil {
		if out, err := exec.Command("useradd", "--system", "--no-create-home", name).CombinedOutput(); err != nil {
			t.Logf("cannot create user %s: %v %s", name, err, out)
			return
		}
		t.Cleanup(func() { _ = exec.Command("userdel", name).Run() })
	}
	if u, err := user.Lookup(name); err == nil {
		id, _ := strconv.Atoi(u.Uid)
		l.user = uint32(id)
	}
}

// claims returns the folder in which a lane's user publishes claims.
func (l *lane) claims() string { return filepath.Join(l.dir, fmt.Sprintf("claims/gpurun-%d", l.user)) }

// Eight runners of two users share four GPUs and offer them to each other. Meanwhile, runners and
// keepers are stopped or killed at random moments, even while they claim. No GPU may be held twice,
// and the other runners must continue.
func TestEightRunnersOfTwoUsers(t *testing.T) {
	among(t)
	const runners = 8
	s := *seed
	rng := rand.New(rand.NewPCG(s, 8))
	p := newPlace(t)
	if os.Getuid() != 0 {
		t.Log("not root: all runners belong to the current user")
	}
	c := &counts{}
	ls := make([]*lane, runners)
	for i := range ls {
		jobs := make([]job, *starts/runners)
		for k := range jobs {
			jobs[k] = job{Name: fmt.Sprintf("j%04d", k), Kind: "plain", GPUs: 1, Memory: 6 + rng.IntN(10), Plan: "0"}
			switch rng.IntN(4) {
			case 0:
				jobs[k].Kind = "share"
			case 1:
				jobs[k].GPUs = 2
			}
		}
		name := fmt.Sprintf("lane%d", i)
		ls[i] = newLane(t, p, name, rng, jobs, c)
		if os.Getuid() == 0 {
			ls[i].belongTo(t, []string{"alice", "bob"}[i%2], 64001+uint32(i%2))
		}
	}
	began := time.Now()
	rs := make([]*runner, runners)
	for i, l := range ls {
		rs[i] = l.start()
	}
	stops := stopAndKill(rng, ls, rs)
	if t.Failed() {
		keep(t, p)
		return
	}
	var attempts [][]*attempt
	for _, l := range ls {
		attempts = append(attempts, l.check())
	}
	killTraceless(p.mark) // left by killed keepers
	noneLeft(t, p.mark)
	all := merge(attempts)
	most := holds(t, all, gpuMemory)
	longest := 0.0
	for i := 1; i < len(all); i++ {
		for _, s := range stops {
			if all[i-1].from() <= s.at && s.at <= all[i].from() && !s.hadAll(all) {
				longest = max(longest, all[i].from()-s.at-p.still.between(s.at, all[i].from()))
			}
		}
	}
	// Two stopped runs in a row may hold an offer, each for the host's courtesy period.
	if longest > 3+2*gpu.NoHostRules().Courtesy.Seconds() {
		t.Errorf("no job started for %.1f s after a runner was stopped", longest)
	}
	t.Logf("seed %d: %d starts by %d runners in %.0f s, at most %d on one GPU; killed: %d runners, %d keepers; runner and keeper stopped together %d times, next start after %.2f s at most",
		s, len(all), runners, time.Since(began).Seconds(), most, c.KillRunner, c.KillKeeper, len(stops), longest)
	if t.Failed() {
		keep(t, p)
	}
}

// A stop is the moment when a lane's runner and its keeper were stopped.
type stop struct {
	at   float64
	lane string
}

// hadAll reports whether the lane held every GPU when it was stopped. Then no other run can start a
// job before the lane continues.
func (s stop) hadAll(all []*attempt) bool {
	last := map[string]string{} // lane by GPU
	for _, a := range all {
		if a.from() > s.at {
			break
		}
		for _, gpu := range a.begun.gpus {
			last[gpu] = a.begun.lane
		}
	}
	for _, lane := range last {
		if lane != s.lane {
			return false
		}
	}
	return len(last) == gpuCount
}

// stopAndKill disturbs random runners until all have exited with 0, or the test has failed: it
// stops a runner and its keeper for up to 4 s, or kills one or both of them. It restarts runners
// that were killed or whose jobs failed, and returns the stops.
func stopAndKill(rng *rand.Rand, ls []*lane, rs []*runner) (stops []stop) {
	had := make([]int64, len(ls)) // size of a lane's ledger when its runner was started
	for living(rs) > 0 && !ls[0].t.Failed() {
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		i := rng.IntN(len(ls))
		l, r := ls[i], rs[i]
		if r.over() {
			if l.ended(r, 0, 1, -int(syscall.SIGKILL)); r.code() != 0 {
				had[i] = l.recorded()
				rs[i] = l.start()
			}
			continue
		}
		// A runner on a busy machine would never end if it were always killed before it records
		// anything.
		if l.recorded() == had[i] && rng.IntN(10) > 0 {
			continue
		}
		pids := keepers(l.mark, l.state)
		switch rng.IntN(5) {
		case 0, 1:
			r.signal(syscall.SIGKILL)
			l.count.add(&l.count.KillRunner)
			continue
		case 2:
			if rng.IntN(2) == 0 {
				r.signal(syscall.SIGKILL)
			}
			if l.killKeepers(pids) {
				l.count.add(&l.count.KillKeeper)
			}
			continue
		}
		pids = append(pids, r.cmd.Process.Pid)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		if living(rs) > 1 {
			stops = append(stops, stop{seconds(time.Now()), l.name})
		}
		r.wait(time.Duration(200+rng.IntN(3800)) * time.Millisecond)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	return stops
}

// recorded returns the size of a lane's ledger.
func (l *lane) recorded() int64 {
	fi, err := os.Stat(filepath.Join(l.state, "ledger.jsonl"))
	if err != nil {
		return 0
	}
	return fi.Size()
}

// living counts the runners that have not exited with 0.
func living(rs []*runner) (n int) {
	for _, r := range rs {
		if !r.over() || r.code() != 0 {
			n++
		}
	}
	return n
}
