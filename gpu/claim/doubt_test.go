package claim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// manyChild holds args[1] shared claims of 1 GiB on GPU-0 below args[0].
func manyChild(args []string) error {
	h := NewHolder(args[:1])
	var n int
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return err
	}
	for i := range n {
		if _, err := h.Again(Stake{UniID: fmt.Sprint("uni-", i), Job: fmt.Sprint("job-", i), Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Memory: gpu.GiB, Share: true}}); err != nil {
			return err
		}
	}
	fmt.Println("held", n)
	bufio.NewReader(os.Stdin).ReadString('\n')
	return nil
}

// An honest user may hold hundreds of claims: every one of them counts.
func TestManyClaimsOfOneUser(t *testing.T) {
	root := sharedRoot(t)
	uid := -1
	if os.Getuid() == 0 {
		uid = alice
	}
	c := start(t, uid, "many", root, "300")
	claims, warnings := others(t, root)
	if len(claims) != 300 || len(warnings) > 0 {
		t.Errorf("%d claims, %q", len(claims), warnings)
	}
	c.end(t)
}

// A claim whose file somebody hard-linked counts once.
func TestSecondNameOfAClaim(t *testing.T) {
	root := sharedRoot(t)
	uid := -1
	if os.Getuid() == 0 {
		uid = alice
	}
	c := start(t, uid, "hold", root, "a")
	path := files(t, root)[0]
	must(t, os.Link(path, filepath.Join(root, "elsewhere")))
	must(t, os.Link(path, filepath.Join(filepath.Dir(path), "b.claim")))
	if claims, warnings := others(t, root); !slices.Equal(jobs(claims), []string{"a"}) || len(warnings) > 0 {
		t.Errorf("claims %+v, warnings %q", claims, warnings)
	}
	c.end(t)
}

// Folders that do not belong to the user in their name hide nobody's claims.
func TestForeignFolders(t *testing.T) {
	root := sharedRoot(t)
	for i := range 3 * maxFolders {
		must(t, os.Mkdir(filepath.Join(root, fmt.Sprint(prefix, 100_000+i)), 0o755))
	}
	c := start(t, -1, "hold", root, "a")
	h := Open([]string{root})
	t.Cleanup(h.Close)
	var got []gpu.Claim
	var warnings []string
	err := errDoubt
	for n := 0; errors.Is(err, errDoubt) && n < 20; n++ { // a busy machine does not look at so many in time
		var more []string
		got, more, err = h.Claim(context.Background(), Stake{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
		warnings = append(warnings, more...)
	}
	if err != nil || !slices.Equal(jobs(got), []string{"a"}) || len(warnings) == 0 || len(warnings) > maxNamed+1 {
		t.Errorf("claims %+v, %v, warnings %q", got, err, warnings)
	}
	c.end(t)
}

// If this process lacks something to read others' claims, there is doubt for as long
// as that lasts, and a warning says what to do.
func TestOwnReadError(t *testing.T) {
	root := t.TempDir()
	c := start(t, -1, "hold", root, "a")
	h := NewHolder([]string{root})
	t.Cleanup(h.Close)
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	var fill []*os.File
	low := unix.Rlimit{Cur: 64, Max: was.Max}
	h.published = func() { // the claim is there, and no descriptor is left
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return
			}
			fill = append(fill, f)
		}
	}
	for i := range 3 {
		_, warnings, err := h.Claim(context.Background(), Stake{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
		for _, f := range fill {
			f.Close()
		}
		fill = nil
		if !errors.Is(err, errDoubt) || i == 0 && !strings.Contains(strings.Join(warnings, "\n"), "raise ulimit -n") {
			t.Errorf("claim %d: %v, %q", i, err, warnings)
		}
	}
	h.published = nil
	if got, _, err := h.Claim(context.Background(), Stake{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}}); err != nil || !slices.Equal(jobs(got), []string{"a"}) {
		t.Errorf("with descriptors again: %+v, %v", got, err)
	}
	c.end(t)
}

// Doubt caused by another user ends after a while. Then only that user's claims seen
// last count, each for its entire GPUs.
func TestDoubtIsBounded(t *testing.T) {
	root := sharedRoot(t)
	uid := os.Getuid()
	if uid == 0 {
		uid = alice
	}
	c := start(t, map[bool]int{true: uid, false: -1}[os.Getuid() == 0], "many", root, "2")
	r := NewReader([]string{root})
	if claims, _, doubt := r.look(context.Background()); len(claims) != 2 || doubt {
		t.Fatalf("%+v, %v", claims, doubt)
	}
	for name := range strings.FieldsSeq("a b c d e f g h") { // more than are read
		for i := range maxNames / 8 {
			fd, err := unix.Open(filepath.Join(root, fmt.Sprint(prefix, uid), fmt.Sprint(name, i, suffix)), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
			must(t, err)
			unix.Close(fd)
		}
	}
	for range 2 {
		if _, _, doubt := r.look(context.Background()); !doubt {
			t.Error("no doubt although there is more than is read")
		}
	}
	r.mu.Lock()
	for _, d := range r.doubts {
		d.since = time.Now().Add(-doubtFor)
	}
	r.mu.Unlock()
	claims, _, doubt := r.look(context.Background())
	if doubt || len(claims) != 2 || claims[0].Share || claims[1].Share {
		t.Errorf("after %v: %+v, %v", doubtFor, claims, doubt)
	}
	c.end(t)
	if claims, _, doubt := r.look(context.Background()); doubt || len(claims) != 0 {
		t.Errorf("after the end of what they held: %+v, %v", claims, doubt)
	}
}

// If nobody can claim in the shared root, a user's own runs still see each other,
// whatever their state folders.
func TestOwnRunsSeeEachOther(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	must(t, os.Mkdir(os.Getenv("HOME"), 0o700))
	for _, runtime := range []string{"", filepath.Join(dir, "runtime")} {
		t.Setenv("XDG_RUNTIME_DIR", runtime)
		if runtime != "" {
			must(t, os.Mkdir(runtime, 0o700))
		}
		root := filepath.Join(dir, "squatted")
		must(t, os.RemoveAll(root))
		must(t, os.MkdirAll(root, 0o755))
		must(t, os.WriteFile(filepath.Join(root, fmt.Sprint(prefix, os.Getuid())), nil, 0o644))
		c := start(t, -1, "hold", strings.Join(Roots(root, filepath.Join(dir, "state1")), ":"), "a")
		h := Open(Roots(root, filepath.Join(dir, "state2")))
		got, _, err := h.Claim(context.Background(), Stake{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
		if err != nil || !slices.Equal(jobs(got), []string{"a"}) {
			t.Errorf("runtime folder %q: %+v, %v", runtime, got, err)
		}
		h.Close()
		c.end(t)
	}
}
