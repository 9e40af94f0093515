package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// sickIn reads the quarantines below a root.
func sickIn(root string) ([]gpu.Quarantine, []string) {
	r := NewReader([]string{root})
	_, warnings := r.Others(context.Background())
	return r.Quarantines(), warnings
}

func quarantine(id gpu.UUID, times int) gpu.Quarantine {
	q := gpu.Quarantine{UUID: id, Index: 3, Times: times, Why: "3 attempts died", Evidence: []string{"a: SIGSEGV"}}
	return q.Again(host.Boottime(), time.Now())
}

// A quarantine outlives the process that published it, replaces the previous one, and is cleared by
// its user.
func TestPublishedQuarantineOutlivesItsProcess(t *testing.T) {
	root := sharedRoot(t)
	for times := range 3 {
		must(t, Publish([]string{root}, quarantine("GPU-a", times)))
	}
	must(t, Publish([]string{root}, quarantine("GPU-b", 0)))
	got, warnings := sickIn(root)
	slices.SortFunc(got, func(a, b gpu.Quarantine) int { return strings.Compare(string(a.UUID), string(b.UUID)) })
	if len(got) != 2 || len(warnings) > 0 {
		t.Fatalf("got %+v, warnings %q, want two quarantines", got, warnings)
	}
	if q := got[0]; q.UUID != "GPU-a" || q.UID != os.Getuid() || q.User == "" || q.Times != 3 || q.Index != 3 || q.Why != "3 attempts died" ||
		len(q.Evidence) != 1 || q.Ends-host.Boottime() < 3*time.Hour || q.Until.Sub(q.Since).Round(time.Minute) != 4*time.Hour {
		t.Errorf("got %+v, want the third quarantine of GPU-a, for 4 hours", q)
	}
	must(t, Clear([]string{root, filepath.Join(root, "none")}, "GPU-a"))
	if got, _ := sickIn(root); len(got) != 1 || got[0].UUID != "GPU-b" {
		t.Errorf("after Clear: %+v, want only GPU-b", got)
	}
	NewHolder([]string{root}).Close()
	sweep(mine(root)[0])
	if got, _ := sickIn(root); len(got) != 1 {
		t.Errorf("after sweep: %+v, want GPU-b", got)
	}
	left, err := os.ReadDir(mine(root)[0].path)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder contains %v, %v, want one file", left, err)
	}
}

// A quarantine that cannot be published below the shared root goes to the user's private root.
func TestQuarantineFallsBackToPrivateRoot(t *testing.T) {
	root, private := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "s")
	must(t, os.WriteFile(root, nil, 0o644))
	must(t, Publish([]string{root, private}, quarantine("GPU-a", 0)))
	if got, _ := sickIn(private); len(got) != 1 {
		t.Errorf("private root: got %+v, want one quarantine", got)
	}
}

// Only valid quarantine files count; others cause a warning.
func TestInvalidQuarantineFilesAreIgnored(t *testing.T) {
	boot, uid := host.BootID(), os.Getuid()
	text := func(change func(s *quarantineRecord)) string {
		s := quarantineRecord{Version: 1, BootID: boot, Quarantine: gpu.Quarantine{UID: uid, UUID: "GPU-a", Ends: host.Boottime() + time.Hour, Times: 1, Why: "it is lost"}}
		change(&s)
		b, err := json.Marshal(s)
		must(t, err)
		return string(b)
	}
	for _, row := range []struct {
		name, file, text string
		found            int
		warning          string
	}{
		{"as written", "GPU-a.sick", text(func(*quarantineRecord) {}), 1, ""},
		{"of another boot", "GPU-a.sick", text(func(s *quarantineRecord) { s.BootID = "x" }), 0, ""},
		{"for another device", "GPU-b.sick", text(func(*quarantineRecord) {}), 0, "GPU-b.sick: not a quarantine"},
		{"no device", "GPU-a.sick", text(func(s *quarantineRecord) { s.UUID = "" }), 0, "GPU-a.sick: not a quarantine"},
		{"for another user", "GPU-a.sick", text(func(s *quarantineRecord) { s.UID = uid + 1 }), 0, "it names uid"},
		{"garbage", "GPU-a.sick", "{", 0, "GPU-a.sick: not a quarantine"},
		{"empty", "GPU-a.sick", "", 0, "GPU-a.sick: not a quarantine"},
		{"too long", "GPU-a.sick", text(func(s *quarantineRecord) { s.Why = strings.Repeat("x", maxSize) }), 0, "bytes"},
		{"being written", "GPU-a.sick.new", "{", 0, ""},
		{"a newer version", "GPU-a.sick", text(func(s *quarantineRecord) { s.Version = 7 }), 1, ""},
		{"without end", "GPU-a.sick", text(func(s *quarantineRecord) {
			s.Ends, s.Times, s.Why = 1<<62, -5, strings.Repeat("x", 2000)
			s.Evidence = slices.Repeat([]string{s.Why}, 20)
		}), 1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := sharedRoot(t)
			dir := userFolder(t, root, uid, uid)
			must(t, os.WriteFile(filepath.Join(dir, row.file), []byte(row.text), 0o644))
			got, warnings := sickIn(root)
			if all := strings.Join(warnings, "\n"); len(got) != row.found || !strings.Contains(all, row.warning) || row.warning == "" && all != "" {
				t.Errorf("got %+v, warnings %q, want %d quarantines, warning %q", got, warnings, row.found, row.warning)
			}
			for _, q := range got {
				if q.Ends > host.Boottime()+gpu.LongestQuarantine || q.Times < 0 || len(q.Why) > maxWhy || len(q.Evidence) > maxEvidence {
					t.Errorf("value out of bounds: %+v", q)
				}
			}
		})
	}
}

// Links and other users' files do not count. Of each user, at most maxSick quarantines count.
func TestForeignQuarantineFilesAreIgnored(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	root := sharedRoot(t)
	dir := userFolder(t, root, mallory, mallory)
	write := func(id gpu.UUID, uid, owner int) {
		b, err := json.Marshal(quarantineRecord{Version: 1, BootID: host.BootID(), Quarantine: gpu.Quarantine{UID: uid, UUID: id, Ends: host.Boottime() + time.Hour}})
		must(t, err)
		path := filepath.Join(dir, quarantineName(id))
		must(t, os.WriteFile(path, b, 0o644))
		must(t, os.Chown(path, owner, owner))
	}
	write("GPU-theirs", mallory, mallory)
	write("GPU-forged", alice, alice)
	must(t, os.Symlink(filepath.Join(dir, "GPU-theirs.sick"), filepath.Join(dir, "GPU-link.sick")))
	got, warnings := sickIn(root)
	if len(got) != 1 || got[0].UID != mallory || got[0].User != fmt.Sprint("uid ", mallory) {
		t.Errorf("got %+v, want only mallory's own", got)
	}
	if all := strings.Join(warnings, "\n"); len(warnings) != 2 || !strings.Contains(all, "GPU-forged.sick: it belongs to uid") || !strings.Contains(all, "GPU-link.sick: it is a symbolic link") {
		t.Errorf("got warnings %q, want one about the forged file and one about the link", warnings)
	}
	for i := range maxSick + 50 {
		write(gpu.UUID(fmt.Sprint("GPU-", i)), mallory, mallory)
	}
	if got, _ := sickIn(root); len(got) != maxSick {
		t.Errorf("%d quarantines of one user count, want %d", len(got), maxSick)
	}
}

// Quarantines from an earlier boot are removed. Expired ones from this boot stay, because they
// determine how long the next one lasts.
func TestSweepKeepsQuarantinesOfThisBoot(t *testing.T) {
	root := sharedRoot(t)
	must(t, Publish([]string{root}, gpu.Quarantine{UUID: "GPU-over", Times: 2, Ends: 1}))
	b, err := json.Marshal(quarantineRecord{Version: 1, BootID: "before", Quarantine: gpu.Quarantine{UID: os.Getuid(), UUID: "GPU-old"}})
	must(t, err)
	old := filepath.Join(mine(root)[0].path, "GPU-old.sick")
	must(t, os.WriteFile(old, b, 0o644))
	sweep(mine(root)[0])
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("%s was not removed: %v", old, err)
	}
	if got, _ := sickIn(root); len(got) != 1 || got[0].Times != 2 {
		t.Errorf("got %+v, want the expired quarantine", got)
	}
}
