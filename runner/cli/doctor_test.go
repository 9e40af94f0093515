package cli

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestDoctorReportsTerminal(t *testing.T) {
	dir := t.TempDir()
	cases := map[string]struct {
		term          string
		width, height uint16
		sees          string
	}{
		"usual": {"xterm", 80, 24, "terminal    ok  80 columns, 24 lines"},
		"dumb":  {"dumb", 80, 24, "WRONG  no live view: TERM is dumb"},
		"small": {"xterm", 30, 4, "too small for the live view"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := startCommandOnPTY(t, dir, "sh", "-c", "read go; TERM="+c.term+" exec gpurun doctor --sim 2x24GiB")
			if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: c.height, Col: c.width}); err != nil {
				t.Fatal(err)
			}
			p.types("go\n")
			p.sees(c.sees)
		})
	}
}
