package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyFoldersOfTrustedOwnersAreAccepted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make folders of other users")
	}
	const alice, mallory, lab = 61002, 61001, 61500
	for name, c := range map[string]struct {
		uid, gid int
		mode     os.FileMode
		job      int // owner of the job file
		want     string
	}{
		"own":                         {0, 0, 0o755, 0, ""},
		"own, private group":          {0, 0, 0o775, 0, ""},
		"own, shared group":           {0, lab, 0o775, 0, "other users can write to"},
		"own, setgid, group may read": {0, lab, 0o755 | os.ModeSetgid, 0, ""},
		"own, everybody":              {0, 0, 0o777, 0, "chmod go-w"},
		"another user's":              {mallory, mallory, 0o755, 0, "belongs to uid 61001"},
		"another user's, writable":    {mallory, mallory, 0o777, 0, "belongs to uid 61001"},
		"root with a user's file":     {alice, alice, 0o775, alice, ""},
		"root, third user's folder":   {mallory, mallory, 0o755, alice, "belongs to uid 61001"},
		"a user's file, shared group": {alice, lab, 0o775, alice, "other users can write to"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, below := range []string{".", logsName, triesName, ".."} {
				job := jobFile(t)
				open(t, job).Close()
				dir := filepath.Join(Folder(job, ""), below)
				if err := errors.Join(os.Chown(job, c.job, c.job), os.Chown(dir, c.uid, c.gid), os.Chmod(dir, c.mode)); err != nil {
					t.Fatal(err)
				}
				s, err := Open([]string{job}, Options{})
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--state-dir")) {
					t.Errorf("%s: got %v, want %q", below, err, c.want)
				}
				if err == nil {
					s.Close()
				}
			}
		})
	}
}

// The error names the file, not the descriptor through which it is changed. No user can change the
// mode of a file in /proc.
func TestFileWithUnchangeableModeIsNamed(t *testing.T) {
	const file, want = "/proc/self/status", "chmod /proc/self/status: operation not permitted"
	if err := (access{}).share(file, 6, 6, 6); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
