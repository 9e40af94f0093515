package claim

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpurun/gpu"
)

// rivalChild claims GPU-0 below args[0] again and again, without a pause, until no other claim is
// in the way or stdin closes. It prints the outcome and the number of tries.
func rivalChild(args []string) error {
	var enough atomic.Bool
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		enough.Store(true)
	}()
	h := Open([]string{args[0]})
	fmt.Println("ready")
	for n := 1; ; n++ {
		uniID := fmt.Sprint(os.Getpid(), "-", n)
		others, _, err := h.Claim(context.Background(), Subject{UniID: uniID, Job: "rival", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
		if err != nil {
			return err
		}
		if len(others) == 0 {
			fmt.Println("got in after", n)
			return nil
		}
		h.Release(uniID)
		if enough.Load() {
			fmt.Println("kept out", n)
			return nil
		}
	}
}

// In hundreds of hand-overs, no rival gets the device or makes this run withdraw. Once this run
// releases the device, a rival gets it.
func TestHandOverIsNeverLost(t *testing.T) {
	const handOvers = 300
	root := sharedRoot(t)
	h := Open([]string{root})
	t.Cleanup(h.Close)
	ctx, g := context.Background(), gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}
	if _, _, err := h.Claim(ctx, Subject{UniID: "0", Job: "job 0", Grant: g}); err != nil {
		t.Fatal(err)
	}
	rivals := []*child{start(t, -1, "rival", root)}
	if os.Getuid() == 0 {
		rivals = append(rivals, start(t, mallory, "rival", root))
	}
	disputed, longest := 0, time.Duration(0)
	for i := 1; i <= handOvers; i++ {
		last, next := strconv.Itoa(i-1), strconv.Itoa(i)
		h.HandOver(last)
		if i%10 == 0 {
			h.Keep()
		}
		if now, _ := h.Others(ctx); len(now) > 0 {
			disputed++
		}
		began := time.Now()
		others, _, err := h.Claim(ctx, Subject{UniID: next, Job: "job " + next, Grant: g})
		longest = max(longest, time.Since(began))
		if err != nil || len(others) > 0 {
			t.Fatalf("hand-over %d: %+v, %v after %v", i, others, err, time.Since(began))
		}
		h.Release(last)
	}
	t.Logf("%d hand-overs, %d with a rival claim; the longest claim took %v", handOvers, disputed, longest)
	for _, r := range rivals[1:] {
		r.in.Close()
		if line, _ := r.said.ReadString('\n'); !strings.HasPrefix(line, "kept out") {
			t.Errorf("a rival printed %q, want that it was kept out", line)
		}
	}
	h.HandOver(strconv.Itoa(handOvers))
	h.Release(strconv.Itoa(handOvers))
	if line, _ := rivals[0].said.ReadString('\n'); !strings.HasPrefix(line, "got in") {
		t.Errorf("after the release, the rival printed %q, want that it got in", line)
	}
}

// A rival that does not withdraw in time is reported to the caller. Only a claim that does not
// share waits for rivals.
func TestHandOverReportsLegitimateHolder(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	t.Cleanup(h.Close)
	ctx, g := context.Background(), gpu.Grant{UUIDs: []gpu.UUID{"GPU-0", "GPU-1"}}
	if _, _, err := h.Claim(ctx, Subject{UniID: "1", Job: "first", Grant: g}); err != nil {
		t.Fatal(err)
	}
	start(t, -1, "hold", root, "stubborn")
	h.HandOver("1")
	readings, took := map[bool]int64{}, map[bool]time.Duration{}
	var entered atomic.Int64
	h.entered = func(string) { entered.Add(1) } // once for each reading, because there is one folder
	for _, share := range []bool{true, false} {
		g.Share = share
		began := time.Now()
		got, _, err := h.Claim(ctx, Subject{UniID: "2", Job: "second", Grant: g})
		if err != nil || !slices.Equal(jobs(got), []string{"stubborn"}) {
			t.Errorf("share %v: claims %+v, %v, want stubborn", share, got, err)
		}
		readings[share], took[share] = entered.Swap(0), time.Since(began)
		h.Release("2")
	}
	if took[false] < settleFor-2*settlePause || readings[true] != 1 || readings[false] < 2 {
		t.Errorf("by share: claims took %v and %v readings; only the one that does not share may wait, for %v", took, readings, settleFor)
	}
}

func TestGiveReleasesOnlyTheGivenDevices(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	t.Cleanup(h.Close)
	g := gpu.Grant{UUIDs: []gpu.UUID{"GPU-0", "GPU-1", "GPU-2"}, Memory: gpu.GiB}
	if _, _, err := h.Claim(context.Background(), Subject{UniID: "1", Job: "first", Grant: g}); err != nil {
		t.Fatal(err)
	}
	reader := start(t, -1, "others", root)
	seen := func() string {
		fmt.Fprintln(reader.in)
		line, _ := reader.said.ReadString('\n')
		return strings.TrimSpace(line)
	}
	steps := []struct {
		do   func() bool
		left bool
		want string
	}{
		{func() bool { return true }, true, "GPU-0 GPU-1 GPU-2"},
		{func() bool { return h.Give("1", []gpu.UUID{"GPU-1"}) }, true, "GPU-0 GPU-2"},
		{func() bool { h.HandOver("1"); h.Keep(); return true }, true, "GPU-0 over GPU-2 over"},
		{func() bool { return h.Give("1", []gpu.UUID{"GPU-1"}) }, true, "GPU-0 over GPU-2 over"},
		{func() bool { return h.Give("1", []gpu.UUID{"GPU-0"}) }, true, "GPU-2 over"},
		{func() bool { return h.Give("1", []gpu.UUID{"GPU-0", "GPU-2"}) }, false, ""},
		{func() bool { h.Keep(); return h.Give("1", nil) }, false, ""},
	}
	for i, s := range steps {
		if left := s.do(); left != s.left {
			t.Errorf("step %d: Give returned %v, want %v", i, left, s.left)
		}
		if got := seen(); got != s.want {
			t.Errorf("step %d: claimed devices %q, want %q", i, got, s.want)
		}
	}
	if left := files(t, root); len(left) > 0 {
		t.Errorf("leftover files: %q", left)
	}
}

// othersChild prints the devices claimed below args[0] for each line on stdin.
func othersChild(args []string) error {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		claims, _ := NewReader(args).Others(context.Background())
		var words []string
		for _, c := range claims {
			words = append(words, string(c.UUID))
			if c.To != "" {
				words = append(words, "over")
			}
		}
		fmt.Println(strings.Join(words, " "))
	}
	return nil
}

// A claim that is released while Keep rewrites it must be gone.
func TestReleaseDuringRepublishEndsTheClaim(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	t.Cleanup(h.Close)
	for i := range 200 {
		uniID := strconv.Itoa(i)
		if _, _, err := h.Claim(context.Background(), Subject{UniID: uniID, Job: "job", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}}); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		h.HandOver(uniID)
		go func() {
			h.Keep()
			close(done)
		}()
		h.Release(uniID)
		<-done
	}
	if left := files(t, root); len(left) > 0 {
		t.Errorf("leftover files: %q", left)
	}
}
