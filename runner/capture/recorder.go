package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// fixedHome is the folder of the recorders in a sandbox. It is fixed because a recorder's
// environment may be empty.
const fixedHome = "/dev/gpurun-capture"

// A message goes from a recorder to the host, or from the host to the recorder as the answer.
type message struct {
	Op      string // "command", "sleep", "submit", "wait", "terminal"
	Record  Record
	PID     int
	Seconds float64
	After   []int  // IDs of the jobs that a submitted job or the launcher waits for
	Group   int    // ID of a job or array; 0 for a new one
	Real    bool   // answer: run the command for real
	Channel string // of tmux wait-for
	Text    string // answer: output of a tmux or screen command
	Status  int    // answer: exit status of that command
	Bad     string // first string in the command that is not UTF-8 (JSON would alter it); "" if there is none
}

// IsRecorder reports whether this process stands in for another program, that is, whether a host
// exists and argv0 does not name gpurun.
func IsRecorder(argv0 string) bool {
	name := filepath.Base(argv0)
	_, err := os.Stat(home() + "/sock")
	return err == nil && name != "gpurun" && !strings.HasSuffix(name, ".test") && (len(os.Args) < 2 || os.Args[1] != ChildArg)
}

func home() string {
	h := os.Getenv("GPURUN_CAPTURE")
	if _, err := os.Stat(h + "/sock"); h == "" || err != nil {
		return fixedHome
	}
	return h
}

// ask sends a message to the host and waits for the answer.
func ask(h message) (a message) {
	conn, err := net.Dial("unix", home()+"/sock")
	if err == nil {
		err = errors.Join(json.NewEncoder(conn).Encode(h), json.NewDecoder(conn).Decode(&a))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpurun capture: cannot reach the collecting process:", err)
	}
	return a
}

// Recorder is the main function of gpurun when it runs under the name of another program.
func Recorder(argv []string) int {
	if strings.HasPrefix(argv[0], home()+"/") {
		argv[0] = filepath.Base(argv[0])
	}
	if f := fakes[filepath.Base(argv[0])]; f != nil {
		return f(argv)
	}
	if !ask(own("command", argv)).Real {
		return 0
	}
	return runs(argv, true)
}

// own returns a message about this process, as if its command line were argv.
func own(op string, argv []string) message {
	r := Record{Argv: argv, Env: os.Environ(), Dir: link("/proc/self/cwd"), Stdin: link("/proc/self/fd/0"), Stdout: link("/proc/self/fd/1"), Stderr: link("/proc/self/fd/2")}
	return message{Op: op, PID: os.Getpid(), Record: r, Bad: r.bad()}
}

// runs replaces this process with a program. If real is set, this recorder covers the program, so
// runs looks for the original.
func runs(argv []string, real bool) int {
	env := os.Environ()
	if real {
		_ = os.Setenv("PATH", strings.ReplaceAll(os.Getenv("PATH"), home()+"/bin", "/nowhere"))
	}
	file, err := exec.LookPath(argv[0])
	path, c := file, Config{}
	if data, err := os.ReadFile(home() + "/config"); real && err == nil && json.Unmarshal(data, &c) == nil {
		if at, err := filepath.EvalSymlinks(file); err == nil && c.Originals[at] != "" {
			path = c.Originals[at]
		}
	}
	if err == nil {
		err = syscall.Exec(path, append([]string{file}, argv[1:]...), env)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", argv[0], err)
	return 127
}

func link(path string) string {
	to, _ := os.Readlink(path)
	return to
}
