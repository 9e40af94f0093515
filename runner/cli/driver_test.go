package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// standInDriver returns the script command that replaces NVML with a stand-in, as in "driver
// hang=init". See gpu/probe/testdata/standin.c for the options. Each call replaces the options of
// the previous one.
func standInDriver(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so")
	build := sync.OnceValue(func() error { return exec.Command("sh", "../../gpu/probe/testdata/build.sh", library).Run() })
	return func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(build())
		file := ts.MkAbs("driver")
		ts.Check(os.WriteFile(file+".new", []byte(strings.Join(args, "\n")+"\n"), 0o666))
		ts.Check(os.Rename(file+".new", file)) // the library may read it at any moment
		ts.Setenv("NVML_STANDIN", file)
		ts.Setenv("GPURUN_NVML", library)
	}
}
