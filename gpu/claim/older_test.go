package claim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// Claims held by keepers of earlier builds must be visible until they are released.
func TestClaimsOfEarlierBuildsAreSeen(t *testing.T) {
	samples, err := filepath.Glob("testdata/older/*.claim")
	if err != nil || len(samples) != 3 {
		t.Fatalf("samples: %v, %v", samples, err)
	}
	for _, sample := range samples {
		text, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		holder, ok := host.StatOf(os.Getppid()) // a reader skips its own process
		if !ok {
			t.Fatal("no /proc")
		}
		root := sharedRoot(t)
		path := filepath.Join(userFolder(t, root, os.Getuid(), os.Getuid()), "20260101t000000-older.claim")
		text = []byte(strings.NewReplacer("UID", strconv.Itoa(os.Getuid()), "BOOT", host.BootID(), "PIDNS", host.PIDNamespace(), "PID", strconv.Itoa(os.Getppid()), "START", strconv.FormatUint(holder.Start, 10)).Replace(string(text)))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		claims, warnings := others(t, root)
		if len(claims) != 1 || claims[0].Job != "slow" || claims[0].UUID != "GPU-sim-64cf49c0-000" || claims[0].Memory != 4<<30 || len(warnings) > 0 {
			t.Errorf("%s: while held: claims %+v, warnings %q", sample, claims, warnings)
		}
		f.Close()
		if claims, _ := others(t, root); len(claims) != 0 {
			t.Errorf("%s: after release: claims %+v, want none", sample, claims)
		}
	}
}
