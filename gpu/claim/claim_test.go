package claim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpurun/gpu"
)

// TestMain lets the test binary run as one of the child processes that tests need.
func TestMain(m *testing.M) {
	ReadLimit = 30 * time.Second // a busy machine may need more than a second for a reading
	if kind := os.Getenv("CLAIM_CHILD"); kind != "" {
		if err := children[kind](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var children = map[string]func(args []string) error{"hold": holdChild, "many": manyChild, "lease": leaseChild, "stress": stressChild, "rival": rivalChild, "others": othersChild, "blind": blindChild, "limit": limitChild}

// holdChild claims GPU-0 below args[0] for the job args[1] and holds it until stdin closes.
func holdChild(args []string) error {
	h := Open(strings.Split(args[0], ":"))
	others, _, err := h.Claim(context.Background(), Subject{UniID: "uni-" + args[1], Job: args[1], Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Memory: 5 * gpu.GiB}})
	if err != nil {
		return err
	}
	fmt.Println("held", len(others))
	bufio.NewReader(os.Stdin).ReadString('\n')
	runtime.KeepAlive(h) // else the garbage collector closes its files, which ends its claims
	return nil
}

// A child is a child process that has printed its first line.
type child struct {
	*exec.Cmd
	in    io.WriteCloser
	said  *bufio.Reader
	first string
}

// start starts a child as user uid (-1 for this user) and waits for its first line.
func start(t *testing.T, uid int, kind string, args ...string) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "CLAIM_CHILD="+kind)
	cmd.Stderr = os.Stderr
	if uid >= 0 {
		if os.Getuid() != 0 {
			t.Skip("only root can be another user")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: false}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: cmd, in: in, said: bufio.NewReader(out)}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	c.first, err = c.said.ReadString('\n')
	if err != nil {
		t.Fatalf("%s child: %v", kind, err)
	}
	return c
}

// shortLimit limits readings as usual. Tests of folders that never answer need it.
func shortLimit(t *testing.T) {
	long := ReadLimit
	ReadLimit = time.Second
	t.Cleanup(func() { ReadLimit = long })
}

// end lets a child exit on its own.
func (c *child) end(t *testing.T) {
	t.Helper()
	c.in.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// sharedRoot creates a root that every user can write to.
func sharedRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "claims") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// userFolder creates a user's folder, owned by owner.
func userFolder(t *testing.T, root string, uid, owner int) string {
	t.Helper()
	dir := filepath.Join(root, fmt.Sprint(prefix, uid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if owner != os.Getuid() {
		if err := os.Chown(dir, owner, owner); err != nil {
			t.Skip("only root can give files away")
		}
	}
	return dir
}

func others(t *testing.T, root string) ([]gpu.Claim, []string) {
	t.Helper()
	return NewReader([]string{root}).Others(context.Background())
}

// jobs returns the names of the jobs with claims.
func jobs(claims []gpu.Claim) []string {
	var names []string
	for _, c := range claims {
		names = append(names, c.Job)
	}
	slices.Sort(names)
	return names
}

func TestClaimLivesWithItsHolder(t *testing.T) {
	root := t.TempDir()
	a := start(t, -1, "hold", root, "train")
	claims, warnings := others(t, root)
	if len(claims) != 1 || len(warnings) > 0 {
		t.Fatalf("claims %+v, warnings %q", claims, warnings)
	}
	got := claims[0]
	if time.Since(got.Since) > time.Minute || got.User == "" {
		t.Errorf("claim is %+v", got)
	}
	got.Since, got.User = time.Time{}, ""
	want := gpu.Claim{UUID: "GPU-0", Job: "train", PID: a.Process.Pid, Memory: 5 * gpu.GiB, Attempt: "uni-train"}
	if got != want {
		t.Errorf("claim is %+v, want %+v", got, want)
	}
	a.Process.Kill()
	a.Wait()
	if claims, _ := others(t, root); len(claims) > 0 {
		t.Errorf("the claim outlives its holder: %+v", claims)
	}
	left := files(t, root)
	Open([]string{root})
	if after := files(t, root); len(left) != 1 || len(after) != 0 {
		t.Errorf("dead holder's files: %q, after Open %q, want one, then none", left, after)
	}
}

func files(t *testing.T, root string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, prefix+"*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestHolderReleasesItsClaims(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	t.Cleanup(h.Close)
	ctx := context.Background()
	g := gpu.Grant{UUIDs: []gpu.UUID{"GPU-0", "GPU-1"}, Memory: gpu.GiB, Share: true}
	if got, warnings, err := h.Claim(ctx, Subject{UniID: "uni/../1", Job: "a", Grant: g}); err != nil || len(got) != 0 || got == nil || len(warnings) > 0 {
		t.Fatalf("Claim = %+v, %q, %v", got, warnings, err)
	}
	b := start(t, -1, "hold", root, "b")
	if b.first != "held 2\n" {
		t.Errorf("the second holder saw %q, want 2 claims", b.first)
	}
	got, _, err := h.Claim(ctx, Subject{UniID: "uni-2", Job: "c", Grant: g})
	if err != nil || !slices.Equal(jobs(got), []string{"b"}) {
		t.Errorf("the third claim sees %+v, %v, want b", got, err)
	}
	h.Release("uni-2")
	h.Release("unknown")
	if got, _ := others(t, root); !slices.Equal(jobs(got), []string{"b"}) {
		t.Errorf("after release, a reader in the holder's process sees %+v, want b", got)
	}
	b.end(t)
	h.Close()
	if left := files(t, root); len(left) != 1 { // b ended without releasing
		t.Errorf("leftover files: %q, want only b's", left)
	}
}

// A claim includes its job's slots. Claims of earlier versions have none.
func TestClaimHasSlots(t *testing.T) {
	g := gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Memory: gpu.GiB, Share: true, Slots: 2}
	body, err := encode(newContent(Subject{UniID: "u", Job: "a", Grant: g}), 0)
	if err != nil {
		t.Fatal(err)
	}
	older := bytes.Replace(body, []byte(`"slots":2,`), nil, 1)
	if bytes.Equal(older, body) {
		t.Fatalf("no slots in %s", body)
	}
	for want, body := range map[int][]byte{2: body, 0: older} {
		c, err := parse(body)
		if err != nil || c.claims("bob")[0].Slots != want || !c.Share {
			t.Errorf("%s: got %+v, %v", body, c, err)
		}
	}
}

// A gpurun inside a job may use that job's devices.
func TestJobsOwnClaimIsIgnored(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"outer", "other"} {
		start(t, -1, "hold", root, name)
	}
	t.Setenv(AttemptVariable, "uni-outer")
	if got, _ := others(t, root); !slices.Equal(jobs(got), []string{"other"}) {
		t.Errorf("within job outer, the claims are %+v, want only other", got)
	}
}

func TestRemovedClaimIsPublishedAgain(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	t.Cleanup(h.Close)
	g := gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}
	if _, _, err := h.Claim(context.Background(), Subject{UniID: "uni-1", Job: "a", Grant: g}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(files(t, root)[0]); err != nil {
		t.Fatal(err)
	}
	if w := h.Keep(); len(w) > 0 || len(files(t, root)) != 1 {
		t.Errorf("after Keep: warnings %q, files %q, want none and one", w, files(t, root))
	}
	if err := os.RemoveAll(filepath.Dir(files(t, root)[0])); err != nil {
		t.Fatal(err)
	}
	if _, w, err := h.Claim(context.Background(), Subject{UniID: "uni-2", Job: "b", Grant: g}); err != nil || len(w) > 0 || len(files(t, root)) != 2 {
		t.Errorf("Claim after the folder was removed: warnings %q, %v, files %q, want none and two", w, err, files(t, root))
	}
}

func TestClaimsFallBackToPrivateRoot(t *testing.T) {
	dir := t.TempDir()
	root, state := filepath.Join(dir, "file"), filepath.Join(dir, "state")
	if err := os.WriteFile(root, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("HOME", "")
	t.Setenv(RootVariable, root)
	roots := Roots(state)
	h, other := Open(roots), NewReader(roots)
	t.Cleanup(h.Close)
	for i, name := range []string{"a", "b"} {
		_, warnings, err := h.Claim(context.Background(), Subject{UniID: name, Job: name, Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
		if err != nil || len(warnings) != 1-i {
			t.Errorf("claim %s: warnings %q, %v; want a warning for the first only", name, warnings, err)
		}
	}
	if got := files(t, filepath.Join(state, "claims")); len(got) != 2 {
		t.Errorf("the state folder contains %q, want 2 claims; reader %v", got, other)
	}
	nowhere := Open(roots[:1])
	if _, _, err := nowhere.Claim(context.Background(), Subject{UniID: "c", Job: "c", Grant: gpu.Grant{}}); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("no writable root: got %v, want an error that names %s", err, root)
	}
}

func FuzzParse(f *testing.F) {
	whole, _ := json.Marshal(newContent(Subject{UniID: "uni", Job: "job", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Memory: 1}}))
	for _, s := range []string{string(whole), "", "{}", `{"version":1,"pid":1,"uni_id":"u","devices":[{"uuid":"a","memory_bytes":-5},{"uuid":"a"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// Although the file is locked, the claim counts only if it is this user's and its process
		// exists.
		path := filepath.Join(t.TempDir(), "a.claim")
		must(t, os.WriteFile(path, b, 0o644))
		flocked(t, path)
		d, err := os.Open(filepath.Dir(path))
		must(t, err)
		defer d.Close()
		if c, ino, err := open(d, "a.claim", os.Getuid(), parse); err == nil && (c.UID != os.Getuid() || ino == 0 || c.exists() != nil) {
			t.Errorf("invalid claim %q counts: %+v", b, c)
		}
		c, err := parse(b)
		if err != nil {
			return
		}
		seen := map[gpu.UUID]bool{}
		for _, cl := range c.claims("x") {
			if seen[cl.UUID] || cl.Memory < 0 || cl.Memory > maxMemory || len(cl.Job) > maxText || cl.PID < 0 {
				t.Errorf("value out of bounds in %+v from %q", cl, b)
			}
			seen[cl.UUID] = true
		}
	})
}

// A claim includes its attempt's cores, memory and expected end. Invalid values are ignored.
func TestClaimHasCoresAndMemory(t *testing.T) {
	ends := time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)
	g := gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Background: true, Since: ends.Add(-time.Hour), HostResources: gpu.HostResources{CPUs: 4, RAM: 8 * gpu.GiB, Ends: ends}}
	read := func(c *content) gpu.Claim {
		t.Helper()
		b, err := encode(c, 0)
		if err == nil {
			c, err = parse(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c.claims("me")[0]
	}
	if c := read(newContent(Subject{UniID: "u", Job: "j", Grant: g})); c.HostResources != g.HostResources || !c.Background || !c.Since.Equal(g.Since) {
		t.Errorf("read %+v, want %+v", c, g)
	}
	bad := newContent(Subject{UniID: "u", Job: "j", Grant: g})
	bad.CPUs, bad.RAM, bad.Ends = -1, -5, time.Time{}
	if c := read(bad); c.HostResources != (gpu.HostResources{}) {
		t.Errorf("read %+v from invalid values, want none", c.HostResources)
	}
}
