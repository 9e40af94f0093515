package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// touch removes the ledger or lock of a live runner. The runner must notice, restore its records,
// start no more jobs and exit with 4. In the meantime, no second runner may start.
func (l *lane) touch(r *runner) {
	name := filepath.Join(l.state, []string{"ledger.jsonl", "lock"}[l.rng.IntN(2)])
	if !r.opened(filepath.Join(l.state, "ledger.jsonl")) {
		return // without a live run, the ledger would not be restored
	}
	l.count.add(&l.count.Touched)
	r.touched = []int{4}
	if os.Rename(name, name+".taken") != nil {
		return
	}
	if l.rng.IntN(2) == 0 { // the journal would show jobs that it starts while r runs
		l.count.add(&l.count.Rivals)
		b := l.start()
		b.wait(patience)
		l.ended(b, 0, 1, 4)
	}
	if !r.wait(patience) {
		l.t.Errorf("%s: gpurun did not end after %s was removed:\n%s", l.name, name, dump(r))
	}
	if exists(name) {
		_ = os.Remove(name + ".taken")
	} else { // the runner had already ended
		_ = os.Rename(name+".taken", name)
	}
}

// opened reports whether a runner has a file open for writing, as it does the ledger
// once it has read it.
func (r *runner) opened(name string) bool {
	fds := fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid)
	entries, _ := os.ReadDir(fds)
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(fds, e.Name()))
		info, _ := os.ReadFile(filepath.Join(filepath.Dir(fds), "fdinfo", e.Name()))
		_, flags, _ := strings.Cut(string(info), "flags:\t")
		flags, _, _ = strings.Cut(flags, "\n")
		if mode, _ := strconv.ParseInt(flags, 8, 64); err == nil && to == name && mode&syscall.O_ACCMODE == syscall.O_RDWR {
			return true
		}
	}
	return false
}

// A user's hundred jobs share a GPU, each with its own claim. All claims must count for another
// user's run, and for the user's own next run even if a file blocks the path of their claims
// folder.
func TestManyClaimsAllCount(t *testing.T) {
	among(t)
	for _, squatted := range []bool{false, true} {
		t.Run(fmt.Sprint("squatted=", squatted), func(t *testing.T) {
			p := newPlace(t)
			p.write(t, "gpus.yaml", "gpus: [{memory: 24GiB}]\n")
			if squatted {
				p.write(t, fmt.Sprintf("claims/gpurun-%d", os.Getuid()), "")
			}
			lane := func(name, text string) *lane {
				l := &lane{place: p, t: t, name: name, count: &counts{}}
				l.state = filepath.Join(p.mkdir(t, name), ".gpurun", "jobs.yaml")
				l.file = p.write(t, name+"/jobs.yaml", strings.ReplaceAll(text, "DIR", p.dir))
				return l
			}
			// Simulated jobs allocate memory gradually. Until then, only their claims reserve it.
			many := lane("many", `settings: {max_concurrent: 100}
jobs:
  - {name: "j{i}", matrix: {i: "1..100"}, gpus: 1, share: true, cpus: 0, gpu_memory: 240MiB, run: "echo up >> DIR/up; while test -d DIR && ! test -e DIR/go; do sleep 0.1; done"}
`)
			one := lane("one", `jobs:
  - {name: big, gpus: 1, share: true, gpu_memory: 2GiB, run: "test -e DIR/go"}
`)
			if !squatted && os.Getuid() == 0 {
				p.openTo(t, "one")
				if err := os.Chmod(filepath.Join(p.dir, "claims"), os.ModeSticky|0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(filepath.Join(p.dir, "one"), 64001, 64001); err != nil {
					t.Fatal(err)
				}
				one.user = 64001
			}
			a := many.start()
			until(t, "a hundred jobs", patience, func() bool {
				b, _ := os.ReadFile(filepath.Join(p.dir, "up"))
				return len(b) >= 300 || a.over()
			})
			b := one.startWith("--no-wait")
			if !b.wait(patience) {
				t.Fatal(dump(b))
			}
			one.ended(b, 75)
			p.write(t, "go", "")
			if !a.wait(patience) {
				t.Fatal(dump(a))
			}
			many.ended(a, 0)
			b = one.start()
			b.wait(patience)
			one.ended(b, 0)
		})
	}
}
