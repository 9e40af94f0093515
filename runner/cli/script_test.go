package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gpurun/gpu/hostrules"
	"gpurun/runner/capture"
	"gpurun/runner/codecopy"
	"gpurun/runner/files"
	"gpurun/runner/notify"
	"gpurun/runner/session"
)

// TestMain makes the test binary act as gpurun, including its keeper and NVML child.
func TestMain(m *testing.M) {
	if capture.IsRecorder(os.Args[0]) || len(os.Args) > 1 && (os.Args[1] == capture.ChildArg || os.Args[1] == "__keeper" || os.Args[1] == "__probe" || os.Args[1] == notify.ChildArg) {
		os.Exit(Main(os.Args[1:]))
	}
	// Ignore this machine's host rules, and accept rules of this user instead of root.
	session.HostRulesAt = hostrules.Place{Path: os.Getenv("TEST_HOST_RULES"), Owner: os.Getuid()}
	session.Steady = "1s"
	session.WatchInterval = 50 * time.Millisecond
	codecopy.MaxFiles = 200
	if d, err := time.ParseDuration(os.Getenv("TEST_LOOK")); err == nil {
		files.LookOne = d
	}
	capture.Limit, capture.Most = 20*time.Second, 100
	if d, err := time.ParseDuration(os.Getenv("TEST_CAPTURE_LIMIT")); err == nil {
		capture.Limit = d
	}
	testscript.Main(m, map[string]func(){
		"gpurun": func() { os.Exit(Main(os.Args[1:])) },
	})
}

// TestScripts runs the scripts in testdata/script. Those that begin with "unraced" check only what
// commands print, so none of them needs the race detector.
func TestScripts(t *testing.T) {
	t.Parallel()
	jobs, err := filepath.Abs("../../jobs")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := filepath.Abs("../../docs/guide")
	if err != nil {
		t.Fatal(err)
	}
	older, err := filepath.Abs("testdata/older")
	if err != nil {
		t.Fatal(err)
	}
	bin := helpers(t)
	if hasRaceDetector() {
		unraceViews(t, bin)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GPURUN_CLAIMS_DIR", env.WorkDir)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TEST_HOST_RULES", filepath.Join(env.WorkDir, "etc", "host.yaml"))
			env.Setenv("GPURUN_SIM_HERE", "1") // also on machines with GPUs
			env.Setenv("JOBS", jobs)           // ready-made job files
			env.Setenv("GUIDE", guide)         // the guide, whose examples the scripts run
			env.Setenv("OLDER", older)         // ledgers of earlier versions
			// Under the race detector, every process would sleep for a second at exit.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			overdue := time.AfterFunc(4*time.Minute, func() { endProcesses(env) })
			env.Defer(func() {
				overdue.Stop()
				if text, err := os.ReadFile(filepath.Join(env.WorkDir, "overdue")); err == nil {
					env.T().Log(string(text)) // await writes it, also in jobs, whose output is not shown
				}
			})
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "userns":
				return userNamespaces(), nil
			case "driver":
			default:
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			_, err := exec.LookPath("cc")
			return err == nil && os.Getenv("CGO_ENABLED") != "0", nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"unraced": withoutRaceDetector,
			"waitfor": waitFor,
			"driver":  standInDriver(t),
			"ask":     ask,

			"webhook":  webhook,
			"document": document,
			"events":   events,
			"agrees":   agrees,
		},
	})
}

// helpers copies testdata/bin to bin, the folder of gpurun, where other users can run the programs too.
func helpers(t *testing.T) (bin string) {
	t.Helper()
	gpurun, err := exec.LookPath("gpurun")
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Dir(gpurun)
	if err := os.CopyFS(bin, os.DirFS("testdata/bin")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// withoutRaceDetector makes the rest of a script use gpurun without the race detector.
func withoutRaceDetector(ts *testscript.TestScript, _ bool, _ []string) {
	path, err := unracedPath()
	ts.Check(err)
	ts.Setenv("PATH", filepath.Dir(path)+":"+ts.Getenv("PATH"))
}

// views are the commands that neither run jobs nor serve anything.
const views = "__complete|__man|check|completion|convert|doctor|done|events|forget|gpus|help|history|log|ls|notify|pause|plan|" +
	"queue|reload|report|results|resume|retry|set|status|stop|usage|version|wait|why|--help|--version"

// unraceViews makes scripts use the race detector only in commands that run jobs or serve: it makes
// every gpurun start five times as slowly, and most only print or change something.
func unraceViews(t *testing.T, bin string) {
	t.Helper()
	gpurun, raced := filepath.Join(bin, "gpurun"), filepath.Join(bin, "raced", "gpurun")
	viewing, err := builtBeside("viewing", "test", "-c", ".")
	if err = errors.Join(err, os.Mkdir(filepath.Dir(raced), 0o755), os.Rename(gpurun, raced)); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("#!/bin/sh\ncase $1 in %s) exec %s \"$@\" ;; *) exec %s \"$@\" ;; esac\n", views, viewing, raced)
	if err := os.WriteFile(gpurun, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// endProcesses kills the processes of a hung script. testscript waits while any process has its
// output open, and a timeout of go test would not name the script.
func endProcesses(env *testscript.Env) {
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range environs {
			dir := filepath.Dir(file)
			pid, _ := strconv.Atoi(filepath.Base(dir))
			vars, err := os.ReadFile(file)
			if err != nil || pid == os.Getpid() || !bytes.Contains(vars, []byte("WORK="+env.WorkDir+"\x00")) {
				continue
			}
			argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			state, _ := os.ReadFile(filepath.Join(dir, "stat"))
			stdout, _ := os.Readlink(filepath.Join(dir, "fd/1"))
			fmt.Fprintf(os.Stderr, "hangs: %s: %v to %d: %q, stdout %s: %.40s\n", filepath.Base(env.WorkDir), sig, pid, argv, stdout, state)
			_ = syscall.Kill(pid, sig)
		}
		time.Sleep(5 * time.Second) // gpurun prints its stacks
	}
}

// exits runs a command and checks its exit status: exits 2 gpurun check bad.yaml.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command [arg...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var ee *exec.ExitError
	switch {
	case errors.As(err, &ee):
		got = ee.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// waitFor waits until files exist. Jobs create them to show that they have started.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		deadline := time.Now().Add(time.Minute)
		for {
			if _, err := os.Stat(ts.MkAbs(name)); err == nil {
				break
			}
			if time.Now().After(deadline) {
				ts.Fatalf("%s does not exist after a minute", name)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// userNamespaces reports whether this user may create user namespaces.
func userNamespaces() bool {
	return exec.Command("unshare", "-U", "--map-user=4321", "true").Run() == nil
}
