package host

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"time"
)

// gitDelay is how long Git waits for processes that still have git's output open after git has ended:
// a wrapper, a hook or a submodule's git may leave such a process running.
const gitDelay = 100 * time.Millisecond

// Git runs git in dir, without taking git's optional locks, and returns what it prints. git's error
// output is written to said, or dropped if said is nil.
func Git(ctx context.Context, dir string, said io.Writer, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks", "-C", dir}, args...)...)
	cmd.WaitDelay, cmd.Stderr = gitDelay, said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) { // git itself has succeeded
		err = nil
	}
	return string(out), err
}
