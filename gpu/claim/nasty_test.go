package claim

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// These uids of other users need no account.
const (
	mallory = 61001
	alice   = 61002
)

// leaseChild holds a write lease on args[0] until stdin closes.
func leaseChild(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return err
	}
	fmt.Println("leased")
	bufio.NewReader(os.Stdin).ReadString('\n')
	runtime.KeepAlive(f)
	return nil
}

// nasty contains what a user may create in or next to their folder. None of it may count, delay a
// reader for long, or hide another user's claim. If want is set, a warning must contain it.
var nasty = map[string]struct {
	make func(t *testing.T, root, dir string)
	want string // part of a warning; "" for no warning
}{
	"fifo": {func(t *testing.T, root, dir string) {
		must(t, unix.Mkfifo(filepath.Join(dir, "a.claim"), 0o644))
		must(t, os.Chown(filepath.Join(dir, "a.claim"), mallory, mallory))
	}, "a.claim: it is not a regular file"},
	"symlink": {func(t *testing.T, root, dir string) {
		must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "a.claim")))
	}, "a.claim: it is a symbolic link"},
	"folder is a symlink": {func(t *testing.T, root, dir string) {
		must(t, os.Symlink(dir, filepath.Join(root, "gpurun-61009")))
	}, "gpurun-61009: it is a symbolic link"},
	"folder is a file": {func(t *testing.T, root, dir string) {
		must(t, os.WriteFile(filepath.Join(root, "gpurun-61009"), nil, 0o644))
	}, "gpurun-61009: it is not a folder"},
	"folder is a fifo": {func(t *testing.T, root, dir string) {
		must(t, unix.Mkfifo(filepath.Join(root, "gpurun-61009"), 0o666))
	}, "gpurun-61009: it is not a folder"},
	"device": {func(t *testing.T, root, dir string) {
		path := filepath.Join(dir, "a.claim")
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(5, 0))); err != nil {
			t.Skip("cannot create devices here")
		}
		must(t, os.Chown(path, mallory, mallory))
	}, "a.claim: it is not a regular file"},
	"hard link": {func(t *testing.T, root, dir string) {
		path := filepath.Join(dir, "a.claim")
		must(t, os.WriteFile(path, nil, 0o644))
		must(t, os.Chown(path, mallory, mallory))
		must(t, os.Link(path, filepath.Join(dir, "b.claim")))
	}, ""},
	"another user's file": {func(t *testing.T, root, dir string) {
		must(t, os.WriteFile(filepath.Join(dir, "a.claim"), nil, 0o644))
		must(t, os.Chown(filepath.Join(dir, "a.claim"), alice, alice))
	}, "a.claim: it belongs to uid 61002"},
	"1 GiB": {func(t *testing.T, root, dir string) {
		path := filepath.Join(dir, "a.claim")
		must(t, os.WriteFile(path, nil, 0o644))
		must(t, os.Truncate(path, 1<<30))
		must(t, os.Chown(path, mallory, mallory))
		flocked(t, path)
	}, "a.claim: it is too large: 1073741824 bytes"},
	"garbage": {func(t *testing.T, root, dir string) {
		garbage(t, filepath.Join(dir, "a.claim"), `{"version":1,"pid":`)
	}, "a.claim: not a claim"},
	"for another uid": {func(t *testing.T, root, dir string) {
		garbage(t, filepath.Join(dir, "a.claim"),
			fmt.Sprintf(`{"version":1,"uid":%d,"pid":%d,"uni_id":"u","devices":[{"uuid":"GPU-0"}]}`, alice, os.Getpid()))
	}, "a.claim: it names uid 61002 but belongs to uid 61001"},
	"for another user's process": {func(t *testing.T, root, dir string) {
		me := self()
		garbage(t, filepath.Join(dir, "a.claim"),
			fmt.Sprintf(`{"version":1,"uid":%d,"boot_id":%q,"pid_ns":%q,"pid":%d,"pid_start":%d,"uni_id":"u","devices":[{"uuid":"GPU-0"}]}`,
				mallory, me.BootID, me.PIDNS, me.PID, me.Start))
	}, "which belongs to another user"},
	"unreadable folder of another user": {func(t *testing.T, root, dir string) {
		must(t, os.Chmod(userFolder(t, root, 61009, mallory), 0o700))
	}, "gpurun-61009: it belongs to uid 61001"},
	"unreadable own folder": {func(t *testing.T, root, dir string) {
		must(t, os.Chmod(dir, 0o700))
	}, ""},
	"more files than are read": {func(t *testing.T, root, dir string) {
		fill(t, dir, maxNames+1000)
	}, "too many files"},
	"not a claim": {func(t *testing.T, root, dir string) {
		must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644))
	}, "contains an unexpected file: notes.txt"},
}

// quickest returns a folder in which many files can be created quickly.
func quickest() string {
	const shm = "/dev/shm"
	if unix.Access(shm, unix.W_OK|unix.X_OK) == nil {
		return shm
	}
	return os.TempDir()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// garbage creates and locks a file that belongs to mallory.
func garbage(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o644))
	must(t, os.Chown(path, mallory, mallory))
	flocked(t, path)
}

// flocked locks path until the test ends.
func flocked(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
}

func TestNastyFoldersAreIgnoredWithAWarning(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	for name, tt := range nasty {
		t.Run(name, func(t *testing.T) {
			if name == "more files than are read" {
				t.Setenv("TMPDIR", quickest())
			}
			root := sharedRoot(t)
			dir := userFolder(t, root, mallory, mallory)
			honest := start(t, alice, "hold", root, "honest")
			tt.make(t, root, dir)
			for _, uid := range []int{0, alice} { // root can read everything, alice cannot
				h := start(t, uid, "hold", root, fmt.Sprint("mine", uid))
				if h.first != "held 1\n" {
					t.Errorf("uid %d saw %q, want one other claim", uid, h.first)
				}
				h.end(t)
			}
			claims, warnings := others(t, root)
			if got := jobs(claims); !slices.Equal(got, []string{"honest"}) {
				t.Errorf("claims of %q, want only honest", got)
			}
			all := strings.Join(warnings, "\n")
			if !strings.Contains(all, tt.want) || tt.want == "" && all != "" || len(warnings) > maxNamed+3 {
				t.Errorf("warnings:\n%s\nwant: %s", all, tt.want)
			}
			honest.end(t)
		})
	}
}

func TestEachWarningIsGivenOnce(t *testing.T) {
	root := t.TempDir()
	dir := userFolder(t, root, os.Getuid(), os.Getuid())
	must(t, os.Symlink("x", filepath.Join(dir, "a.claim")))
	r := NewReader([]string{root, root})
	if _, w := r.Others(context.Background()); len(w) != 1 {
		t.Errorf("warnings %q, want one", w)
	}
	if _, w := r.Others(context.Background()); len(w) != 0 {
		t.Errorf("second reading: warnings %q, want none", w)
	}
}

func TestWriteLeaseDoesNotDelayReaders(t *testing.T) {
	root := sharedRoot(t)
	uid := os.Getuid()
	if uid == 0 {
		uid = mallory
	}
	dir := userFolder(t, root, uid, uid)
	l := start(t, map[bool]int{true: uid, false: -1}[os.Getuid() == 0], "lease", filepath.Join(dir, "a.claim"))
	claims, warnings := others(t, root)
	if len(claims) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "lease") {
		t.Errorf("claims %+v, warnings %q", claims, warnings)
	}
	l.end(t)
}

// With fs.protected_regular, even root cannot open another user's file in a sticky folder with
// O_CREAT.
func TestProtectedRegularDoesNotPreventClaims(t *testing.T) {
	value, err := os.ReadFile("/proc/sys/fs/protected_regular")
	if err != nil || strings.TrimSpace(string(value)) == "0" { // setting it would affect the whole host
		t.Skip("fs.protected_regular is not set here")
	}
	root := sharedRoot(t)
	a, m := start(t, alice, "hold", root, "a"), start(t, mallory, "hold", root, "m")
	if a.first != "held 0\n" || m.first != "held 1\n" {
		t.Errorf("alice saw %q, mallory %q", a.first, m.first)
	}
	if claims, warnings := others(t, root); !slices.Equal(jobs(claims), []string{"a", "m"}) || len(warnings) > 0 {
		t.Errorf("claims %+v, warnings %q", claims, warnings)
	}
	a.end(t)
	m.end(t)
}

// Runs of a user who cannot create a folder below the root must still see each other.
func TestUserWithoutFolderSeesOwnRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	root, state := sharedRoot(t), sharedRoot(t)
	must(t, os.Chmod(root, 0o755))
	c := start(t, mallory, "hold", root+":"+filepath.Join(state, "s"), "m")
	d := start(t, mallory, "hold", root+":"+filepath.Join(state, "s"), "n")
	if c.first != "held 0\n" || d.first != "held 1\n" {
		t.Errorf("the first saw %q, the second %q", c.first, d.first)
	}
	h := Open([]string{root})
	t.Cleanup(h.Close)
	if got, _, err := h.Claim(context.Background(), Subject{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}}); err != nil || len(got) > 0 {
		t.Errorf("root's claim: %+v, %v, want no other claims", got, err)
	}
}

// A user's claims must be visible even if another user has taken the name of the user's folder.
func TestTakenFolderNameHidesNoClaims(t *testing.T) {
	root := sharedRoot(t)
	must(t, os.Chown(userFolder(t, root, alice, mallory), mallory, mallory))
	a := start(t, alice, "hold", root, "a")
	b := start(t, alice, "hold", root, "b")
	if a.first != "held 0\n" || b.first != "held 1\n" {
		t.Errorf("alice's first run saw %q, the second %q", a.first, b.first)
	}
	claims, warnings := others(t, root)
	if !slices.Equal(jobs(claims), []string{"a", "b"}) || len(warnings) != 1 || !strings.Contains(warnings[0], "it belongs to uid 61001") {
		t.Errorf("claims %+v, warnings %q", claims, warnings)
	}
	if dirs, _ := filepath.Glob(filepath.Join(root, fmt.Sprint(prefix, alice, ".*"))); len(dirs) != 1 {
		t.Errorf("alice created %q, want one folder with a suffix", dirs)
	}
	a.end(t)
	b.end(t)
}

// Only some folders of each user are read, and a warning reports the rest.
func TestTooManyFoldersAreReported(t *testing.T) {
	root := sharedRoot(t)
	for i := range maxOwned + 1 {
		dir := filepath.Join(root, fmt.Sprint(prefix, mallory, ".", i))
		must(t, os.Mkdir(dir, 0o755))
		if os.Chown(dir, mallory, mallory) != nil {
			t.Skip("only root can give files away")
		}
	}
	var s view
	list := s.folders(context.Background(), root)
	if len(list) != maxOwned || !slices.ContainsFunc(list, func(f folder) bool { return f.more }) {
		t.Errorf("got folders %+v, want %d, one of which reports that there are more", list, maxOwned)
	}
	if _, warnings := others(t, root); len(warnings) != 1 || !strings.Contains(warnings[0], "too many") {
		t.Errorf("warnings %q, want one about too many folders", warnings)
	}
}
