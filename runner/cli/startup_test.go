package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every command pays for what packages do before main, such as compiling regular expressions.
// Allocations are reproducible, unlike times.
func TestStartupAllocatesLittle(t *testing.T) {
	const most, ofOne = 11_000, 1500
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "__probe", "--help")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, _ := cmd.CombinedOutput()
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) allocs$`).FindAllStringSubmatch(string(out), -1) {
		n, _ := strconv.Atoi(m[2])
		if sum += n; n > ofOne && strings.HasPrefix(m[1], "gpurun/") {
			t.Errorf("package %s allocates %d times before main, want at most %d: defer work that few commands need (sync.OnceValue)", m[1], n, ofOne)
		}
	}
	if sum == 0 || sum > most {
		t.Errorf("%d allocations before main, want at most %d:\n%s", sum, most, out)
	}
}
