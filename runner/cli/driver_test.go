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

// standInDriver is the script command that replaces NVML by a stand-in, e.g. driver
// hang=init; gpu/probe/testdata/standin.c has the options. It replaces earlier options.
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
		ts.Check(os.Rename(file+".new", file)) // the library may read it at any moment
		ts.Setenv("NVML_STANDIN", file)
		ts.Setenv("GPURUN_NVML", library)
	}
}
