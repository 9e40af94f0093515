package claim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// tailing watches root for the run "me" until the test ends. It returns a channel of the times of
// reports, and the number of claims read.
func tailing(t *testing.T, root string) (told chan time.Time, looks *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	told, looks = make(chan time.Time, 1000), &atomic.Int64{}
	go func() {
		defer close(done)
		NewReader([]string{root}).Watch(ctx, Watch{
			Run: "me", Own: func(string) bool { return false },
			Urgent: func(c gpu.Claim) bool {
				looks.Add(1)
				return c.To == "me"
			},
			Tell: func() { told <- time.Now() },
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return told, looks
}

// soon waits for the first report after a time, and returns the delay.
func soon(t *testing.T, told chan time.Time, after time.Time) time.Duration {
	t.Helper()
	for {
		select {
		case at := <-told:
			if at.After(after) {
				return at.Sub(after)
			}
		case <-time.After(time.Minute):
			t.Fatal("no report within a minute")
		}
	}
}

// rewrite changes the text of a claim's file.
func rewrite(t *testing.T, path, old, with string) {
	t.Helper()
	body, err := os.ReadFile(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(strings.Replace(string(body), old, with, 1)), 0)
	must(t, err)
}

// However fast one user changes a claim, watchers read it at a limited rate. Another user's offer
// is still reported immediately.
func TestFloodOfChangesDoesNotDelayOffers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be several users")
	}
	root := sharedRoot(t)
	start(t, mallory, "hold", root, "a")
	start(t, alice, "hold", root, "b")
	began := time.Now()
	told, looks := tailing(t, root)
	path := filepath.Join(root, fmt.Sprint(prefix, mallory), "uni-a.claim")
	body, err := os.ReadFile(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	stop, changes := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				changes <- n
				return
			default:
			}
			_, _ = f.WriteAt(body, 0)
			if n%50 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	soon(t, told, time.Now())
	soon(t, told, time.Now()) // the flood must be reported more than once
	b := filepath.Join(root, fmt.Sprint(prefix, alice), "uni-b.claim")
	rewrite(t, b, `"memory_bytes":5368709120`, `"memory_bytes":5368709120,"to":"it"`)
	took := time.Hour
	for tries := 0; took > claimEvery/2 && tries < 30; tries++ { // on a busy machine, most tries may take longer
		offered := time.Now()
		rewrite(t, b, `"to":"it"`, `"to":"me"`)
		if d := soon(t, told, offered); tries > 0 { // the first try may coincide with the flood
			took = min(took, d)
		}
		rewrite(t, b, `"to":"me"`, `"to":"it"`)
	}
	t.Logf("an offer was reported after %v", took)
	close(stop)
	n, span := <-changes, int(time.Since(began)/time.Second)
	t.Logf("%d changes, %d readings, %d reports", n, looks.Load(), len(told))
	if most := int64((span + 2) * (mostLooks + 1)); looks.Load() > most {
		t.Errorf("%d readings for %d changes, want at most %d", looks.Load(), n, most)
	}
	if took > claimEvery/2 {
		t.Errorf("offers were reported after %v at best, want at most %v", took, claimEvery/2)
	}
}

// This run's own claims are not reported, even if they end after Own no longer knows them.
func TestOwnClaimsAreNotReported(t *testing.T) {
	own := true
	w := newWatcher(Watch{Run: "me", Own: func(uniID string) bool { return own && uniID == "uni-a" }})
	folder := folder{path: t.TempDir()}
	w.file(folder, "uni-a.claim")
	own = false
	w.file(folder, "uni-a.claim")
	w.file(folder, "me.wish")
	if w.pause != 0 {
		t.Errorf("own files are reported after %v, want never", w.pause)
	}
	w.file(folder, "uni-b.claim")
	if w.pause != claimEvery {
		t.Errorf("another claim is reported after %v, want %v", w.pause, claimEvery)
	}
}

// The longer a reading of all claims takes, the more rarely changes are reported.
func TestReportsAreLimitedByTheirCost(t *testing.T) {
	last := time.Now()
	for _, tt := range []struct {
		name   string
		urgent bool
		pause  time.Duration
		cost   time.Duration
		want   time.Duration // -1 for never
	}{
		{"no change", false, 0, 0, -1},
		{"a claim", false, claimEvery, time.Millisecond, claimEvery},
		{"a claim, slow reading", false, claimEvery, time.Second, 20 * time.Second},
		{"an offer", true, claimEvery, time.Millisecond, 4 * time.Millisecond},
		{"an offer, slow reading", true, claimEvery, 500 * time.Millisecond, 2 * time.Second},
	} {
		w := newWatcher(Watch{})
		w.urgent, w.pause = tt.urgent, tt.pause
		got := time.Duration(-1)
		if at := w.nextReport(last, tt.cost); !at.IsZero() {
			got = at.Sub(last)
		}
		if got != tt.want {
			t.Errorf("%s: reported after %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Changes are reported even if the user has no inotify instances left.
func TestChangesAreReportedWithoutInotify(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be several users")
	}
	const nobody = 61077 // no other test needs this user's inotify instances
	c := start(t, nobody, "blind", sharedRoot(t))
	if c.first != "told\n" {
		t.Errorf("the child printed %q, want a report", c.first)
	}
}

// blindChild uses up the inotify instances that the kernel allows, then watches args[0] until it
// gets a report.
func blindChild(args []string) error {
	for n := 0; ; n++ {
		if _, err := unix.InotifyInit(); err != nil {
			break
		} else if n > 10_000 {
			return fmt.Errorf("the kernel does not limit inotify instances")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	NewReader(args[:1]).Watch(ctx, Watch{Own: func(string) bool { return false }, Urgent: func(gpu.Claim) bool { return false }, Tell: func() {
		fmt.Println("told")
		cancel()
	}})
	return nil
}
