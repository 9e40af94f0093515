package claim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
		if _, err := h.Again(Subject{UniID: fmt.Sprint("uni-", i), Job: fmt.Sprint("job-", i), Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Memory: gpu.GiB, Share: true}}); err != nil {
			return err
		}
	}
	fmt.Println("held", n)
	bufio.NewReader(os.Stdin).ReadString('\n')
	runtime.KeepAlive(h)
	return nil
}

// Every one of a user's claims counts, even if there are hundreds.
func TestHundredsOfClaimsAllCount(t *testing.T) {
	root := sharedRoot(t)
	uid := -1
	if os.Getuid() == 0 {
		uid = alice
	}
	c := start(t, uid, "many", root, "300")
	claims, warnings, doubt := NewReader([]string{root}).look(t.Context())
	if len(claims) != 300 || len(warnings) > 0 || doubt {
		t.Errorf("%d claims, warnings %q, doubt %v, want 300", len(claims), warnings, doubt)
	}
	c.end(t)
}

// A hard link to a claim must not make it count twice.
func TestHardLinkedClaimCountsOnce(t *testing.T) {
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

// Folders that do not belong to the user in their name must not hide claims in other folders.
func TestForeignFoldersHideNoClaims(t *testing.T) {
	root := sharedRoot(t)
	for i := range 3 * maxFolders {
		must(t, os.Mkdir(filepath.Join(root, fmt.Sprint(prefix, 100_000+i)), 0o755))
	}
	c := start(t, -1, "hold", root, "a")
	h := Open([]string{root})
	t.Cleanup(h.Close)
	got, warnings, err := h.Claim(context.Background(), Subject{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
	if err != nil || !slices.Equal(jobs(got), []string{"a"}) || len(warnings) == 0 || len(warnings) > maxNamed+1 {
		t.Errorf("the other holder printed %q; claims %+v, %v, warnings %q", c.first, got, err, warnings)
	}
	listings.Delete(mustEval(t, root))
	late, cancel := context.WithCancel(context.Background())
	cancel()
	var s view
	list := s.folders(late, mustEval(t, root)) // without time to list all names
	if !slices.ContainsFunc(list, func(f folder) bool { return f.uid == os.Getuid() }) || len(s.warnings) != 1 {
		t.Errorf("without time: folders %+v, warnings %q, want that of uid %d, one warning", list, s.warnings, os.Getuid())
	}
	c.end(t)
}

// If this process lacks a resource for reading claims, there is doubt until the resource is
// available, and a warning names a fix.
func TestOwnReadErrorPreventsStarts(t *testing.T) {
	root := t.TempDir()
	c := start(t, -1, "hold", root, "a")
	h := NewHolder([]string{root})
	t.Cleanup(h.Close)
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	var fill []*os.File
	taken := sharedRoot(t)
	must(t, os.Mkdir(filepath.Join(taken, fmt.Sprint(prefix, os.Getuid())), 0o700))
	low := unix.Rlimit{Cur: 64, Max: was.Max}
	h.published = func() { // after the claim is published, use up all descriptors
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				_, _ = ownFolder(taken, false)
				return
			}
			fill = append(fill, f)
		}
	}
	for i := range 3 {
		_, warnings, err := h.Claim(context.Background(), Subject{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
		for _, f := range fill {
			f.Close()
		}
		fill = nil
		if !errors.Is(err, errDoubt) || i == 0 && !strings.Contains(strings.Join(warnings, "\n"), "raise ulimit -n") {
			t.Errorf("claim %d: %v, warnings %q, want doubt, at first with a fix", i, err, warnings)
		}
	}
	if dirs, _ := os.ReadDir(taken); len(dirs) != 1 {
		t.Errorf("without descriptors, ownFolder created folders: %v", dirs)
	}
	h.published = nil
	if got, _, err := h.Claim(context.Background(), Subject{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}}); err != nil || !slices.Equal(jobs(got), []string{"a"}) {
		t.Errorf("with descriptors again: %+v, %v, want a", got, err)
	}
	c.end(t)
}

// Doubt caused by another user ends after one reading. After that, all devices count as claimed by
// that user while one of their processes holds a lock there.
func TestDoubtIsBounded(t *testing.T) {
	root := sharedRoot(t)
	uid := os.Getuid()
	if uid == 0 {
		uid = alice
	}
	c := start(t, map[bool]int{true: uid, false: -1}[os.Getuid() == 0], "many", root, "2")
	r := NewReader([]string{root})
	if claims, _, doubt := r.look(context.Background()); len(claims) != 2 || doubt {
		t.Fatalf("claims %+v, doubt %v, want two claims", claims, doubt)
	}
	fill(t, filepath.Join(root, fmt.Sprint(prefix, uid)), maxNames)
	if _, _, doubt := r.look(context.Background()); !doubt {
		t.Error("no doubt although not all files were read")
	}
	claims, _, doubt := r.look(context.Background())
	if doubt || !slices.ContainsFunc(claims, func(c gpu.Claim) bool { return c.UUID == gpu.Every && c.UID == uid && !c.Share }) {
		t.Errorf("second reading: claims %+v, doubt %v, want a claim on all devices", claims, doubt)
	}
	c.end(t)
	if claims, _, doubt := r.look(context.Background()); doubt || len(claims) != 0 {
		t.Errorf("after the holder ended: claims %+v, doubt %v, want none", claims, doubt)
	}
}

// fill creates n claims without a holder in a folder.
func fill(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		fd, err := unix.Open(filepath.Join(dir, fmt.Sprint("dead-", i, suffix)), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		must(t, err)
		unix.Close(fd)
	}
}

// If the shared root is not writable, a user's own runs still see each other, whatever their state
// folders.
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
		t.Setenv(RootVariable, root)
		c := start(t, -1, "hold", strings.Join(Roots(filepath.Join(dir, "state1")), ":"), "a")
		h := Open(Roots(filepath.Join(dir, "state2")))
		got, _, err := h.Claim(context.Background(), Subject{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
		if err != nil || !slices.Equal(jobs(got), []string{"a"}) {
			t.Errorf("runtime folder %q: claims %+v, %v, want a", runtime, got, err)
		}
		h.Close()
		c.end(t)
	}
}

// If a folder with a live claim cannot be read, all devices count as claimed.
func TestUnreadFolderBlocksAllDevices(t *testing.T) {
	shortLimit(t)
	root := t.TempDir()
	c := start(t, -1, "hold", root, "a")
	h := NewHolder([]string{root})
	t.Cleanup(h.Close)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	h.entered = func(string) { <-never }
	err := errDoubt
	var got []gpu.Claim
	for n := 0; errors.Is(err, errDoubt) && n < 20; n++ {
		got, _, err = h.Claim(context.Background(), Subject{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
	}
	if err != nil || len(got) != 1 || got[0].UUID != gpu.Every || got[0].UID != os.Getuid() {
		t.Errorf("claims %+v, %v, want one on all devices", got, err)
	}
	c.end(t)
}

// Files without a holder are not read again until their folder changes. A file that its holder has
// not published yet must be read again, however long the holder takes.
func TestDeadFilesAreReadOnce(t *testing.T) {
	root := t.TempDir()
	dir := userFolder(t, root, os.Getuid(), os.Getuid())
	fill(t, dir, 100)
	must(t, os.WriteFile(filepath.Join(dir, "late.claim"), nil, 0o600))
	path := mustEval(t, dir)
	for began := time.Now(); ; {
		if got, w := others(t, root); len(got)+len(w) > 0 {
			t.Fatalf("claims %+v, warnings %q, want none", got, w)
		}
		if l, ok := listings.Load(path); ok && l.(folderListing).ctime != 0 && slices.Equal(l.(folderListing).names, []string{"late.claim"}) {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("after a minute, dead files are still read each time")
		}
	}
	listings.Delete(path)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	new(view).read(ctx, folder{path: path, uid: os.Getuid(), most: maxNames})
	if l, _ := listings.Load(path); l.(folderListing).ctime != 0 {
		t.Errorf("an incomplete listing is cached: %+v", l)
	}
	late := newContent(Subject{UniID: "late", Job: "late", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
	late.PIDNS = "elsewhere"
	body, err := encode(late, 0)
	must(t, err)
	flocked(t, filepath.Join(dir, "late.claim"))
	must(t, os.Chmod(filepath.Join(dir, "late.claim"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "late.claim"), body, 0o644))
	if got, w := others(t, root); !slices.Equal(jobs(got), []string{"late"}) || len(w) > 0 {
		t.Errorf("claim published late: claims %+v, warnings %q", got, w)
	}
	c := start(t, -1, "hold", root, "next")
	if got, w := others(t, root); !slices.Equal(jobs(got), []string{"late", "next"}) || len(w) > 0 {
		t.Errorf("next claim: claims %+v, warnings %q", got, w)
	}
	c.end(t)
}

// A holder that could not read its own start time, for lack of descriptors, still holds its claim.
func TestClaimWithoutStartTimeCounts(t *testing.T) {
	root := t.TempDir()
	c := newContent(Subject{UniID: "u", Job: "j", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
	c.PID, c.Start = os.Getppid(), 0
	body, err := encode(c, 0)
	must(t, err)
	path := filepath.Join(userFolder(t, root, os.Getuid(), os.Getuid()), "u.claim")
	must(t, os.WriteFile(path, body, 0o644))
	flocked(t, path)
	if got, w := others(t, root); !slices.Equal(jobs(got), []string{"j"}) || len(w) > 0 {
		t.Errorf("claims %+v, warnings %q, want j", got, w)
	}
}
