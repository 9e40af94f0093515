package local

import (
	"fmt"
	"os"
	"testing"

	"gpurun/runner/engine"
	"gpurun/runner/engine/enginetest"
)

// TestMain lets the test binary be its own keeper.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__keeper" {
		os.Exit(KeeperMain(os.Args[2:]))
	}
	children := map[string]func(args []string) error{"runner child": runnerChild, "watch child": watchChild, "stand child": standChild}
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := children[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t *testing.T, dir string) engine.Engine {
	t.Helper()
	l, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) { enginetest.Run(t, open) }
