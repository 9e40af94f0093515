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

// standInDriver is the command of scripts that puts a driver in the place of NVML:
// driver hang=init. gpu/probe/testdata/standin.c says what there is to choose from.
// What an earlier one said is replaced.
func standInDriver(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	dir := t.TempDir()
	build := sync.OnceValues(func() (library string, err error) {
		header, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
		if err != nil {
			return "", err
		}
		library = filepath.Join(dir, "libnvidia-ml.so")
		return library, exec.Command("cc", "-shared", "-fPIC", "-DNVML_NO_UNVERSIONED_FUNC_DEFS=1", "-I", strings.TrimSpace(string(header)),
			"-o", library, "../../gpu/probe/testdata/standin.c").Run()
	})
	return func(ts *testscript.TestScript, neg bool, args []string) {
		library, err := build()
		ts.Check(err)
		file := ts.MkAbs("driver")
		ts.Check(os.WriteFile(file+".new", []byte(strings.Join(args, "\n")+"\n"), 0o666))
		ts.Check(os.Rename(file+".new", file)) // the library reads it at any moment
		ts.Setenv("NVML_STANDIN", file)
		ts.Setenv("GPURUN_NVML", library)
	}
}
