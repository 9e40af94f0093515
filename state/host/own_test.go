package host

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A process that cannot open a file never takes it for a missing one, and says once why it waits.
func TestLongWaitForADescriptorIsReportedOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr, starved = w, sync.Once{}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 2 {
			err := Patiently("/proc/7/stat", func() error {
				if time.Since(began)%time.Minute < 30*time.Second {
					return unix.EMFILE
				}
				return unix.ENOENT
			})
			if err != unix.ENOENT {
				t.Errorf("got %v, want the first error that is not for lack of descriptors", err)
			}
			time.Sleep(30 * time.Second)
		}
	})
	w.Close()
	said, _ := io.ReadAll(r)
	if got := string(said); strings.Count(got, "\n") != 1 || !strings.Contains(got, ") cannot read /proc/7/stat: too many open files; waiting until a file is closed (raise ulimit -n or fs.file-max)\n") {
		t.Errorf("reported %q, want one line", got)
	}
}
