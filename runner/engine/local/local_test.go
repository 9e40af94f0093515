package local

import (
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
