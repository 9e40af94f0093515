package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// su and sudo may leave HOME unchanged. Then the home and its config.yaml belong to another user.
func TestUnreadableHomeIsIgnored(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to act as another user")
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	dir, err := os.MkdirTemp("", "gpurun-home-") // only root can enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	home := filepath.Join(dir, "home")
	for path, mode := range map[string]os.FileMode{dir: 0o755, home: 0o700} {
		if err := os.MkdirAll(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "jobs.yaml"), `jobs: [{name: a, gpus: 0, run: "true"}]`+"\n")
	cmd := exec.Command("/proc/self/fd/3", "check", "jobs.yaml")
	cmd.Args[0], cmd.Dir, cmd.ExtraFiles = "gpurun", dir, []*os.File{exe}
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64001, Gid: 64001}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "jobs.yaml: native, 1 job, ok") {
		t.Errorf("got %v, %s", err, out)
	}
	if want := "gpurun: warning: " + home + "/.config/gpurun/config.yaml: skipped because " + home + " belongs to another user"; !strings.Contains(string(out), want) {
		t.Errorf("got %s, want %q", out, want)
	}
}
