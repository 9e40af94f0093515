// Package capture runs a launcher with recorders in place of the programs that it starts. The
// recorders are gpurun under the names of those programs. The host, a child process of gpurun,
// creates a sandbox, starts the launcher there and answers the recorders. Recorded commands never
// run.
//
// A recorder waits until the host releases it. The host does so only while every other thread
// sleeps, so the load of the machine does not affect which commands overlap.
package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"gpurun/jobspec/source"
)

// Config tells the host which programs to run and which of their commands to record.
type Config struct {
	Programs         []Record // the launcher, or the jobs of a proof, which run concurrently
	Proof            bool     // record everything and hold nothing
	Oldest           bool     // release the oldest held command first, not the newest
	Sandbox, Network bool
	GPUs             int
	Record, Run      []string          // globs that match whole command lines
	Limit            time.Duration     // how long the launcher may go without starting a command
	Most             int               // the maximum number of processes, not counting recorders
	Home             string            // the folder of the recorders
	Self             string            // path of the gpurun executable
	Originals        map[string]string // where the original of each covered program is, by the program's path
	Sockets          []string          // sockets of services that could start programs outside the sandbox
	Uppers           int               // a file descriptor of the folder with the changes made in the overlays
	Covered          []string          // the folder that each overlay covers
	Escaped          []string          // interpreters that started without a recorder in earlier attempts
}

// A Record is a command that is to be run, or that was recorded instead of being run.
type Record struct {
	Argv, Env             []string
	Dir                   string
	Stdin, Stdout, Stderr string // paths of files; "" if not redirected
	Began, Ended          int    // see fold.Command
}

// bad returns the first string in a command that is not valid UTF-8, quoted in ASCII, or "" if all
// are valid. For a variable, it returns only the name.
func (r *Record) bad() string {
	for _, list := range [][]string{r.Argv, {r.Dir, r.Stdin, r.Stdout, r.Stderr}} {
		for _, s := range list {
			if !utf8.ValidString(s) {
				return strconv.QuoteToASCII(s)
			}
		}
	}
	for _, kv := range r.Env {
		if name, _, _ := strings.Cut(kv, "="); !utf8.ValidString(kv) {
			return "the variable " + strconv.QuoteToASCII(name) // its value may be a secret
		}
	}
	return ""
}

// A Report is the result of a capture.
type Report struct {
	Commands []Record // in the order in which the launcher starts them, even if they raced
	Status   int      // exit status of the launcher; for a signal, 128 plus its number
	Stopped  string   // why gpurun stopped the launcher, or ""
	Last     string   // last line of the launcher's output
	Warnings []string
	Changes  []Change
	Escaped  string // an interpreter that started without a recorder, or ""
	Err      string // why there is no sandbox, or ""
}

// A Change is a file or folder that the launcher created, changed or removed in the sandbox.
type Change struct {
	Path         string
	Removed, Dir bool
	Time         time.Time
}

const ChildArg = "__capture" // the first argument of the host

// ErrNoSandbox means that the system does not allow user namespaces.
var ErrNoSandbox = errors.New("no sandbox, because this system does not allow user namespaces")

// Limit is how long a launcher may go without starting a command, and Most is how many processes it
// may have at the same time.
var Limit, Most = time.Minute, 300

const maxEscaped = 20

const notText = "a job file cannot contain text that is not UTF-8: "

// Run runs the programs of a config and returns what they started. If an interpreter starts without
// a recorder, Run starts over with a recorder in place of the interpreter.
func Run(c *Config) (*Report, error) {
	for i := range c.Programs {
		if bad := c.Programs[i].bad(); bad != "" {
			return nil, errors.New(notText + bad)
		}
	}
	for {
		r, err := run(*c)
		if err != nil || r.Escaped == "" || slices.Contains(c.Escaped, r.Escaped) || len(c.Escaped) == maxEscaped {
			return r, err
		}
		c.Escaped = append(c.Escaped, r.Escaped)
	}
}

func run(c Config) (*Report, error) {
	self, err := os.Executable()
	if c.Self, c.Limit, c.Most, c.Home = self, Limit, Most, fixedHome; !c.Sandbox && err == nil {
		c.Home, err = os.MkdirTemp("", "gpurun-capture-")
		defer os.RemoveAll(c.Home)
	}
	sockets, _ := os.ReadFile("/proc/net/unix") // read here, because the sandbox's own file lists other sockets
	for line := range strings.Lines(string(sockets)) {
		if _, path, named := strings.Cut(strings.TrimSpace(line), " /"); named {
			c.Sockets = append(c.Sockets, "/"+path)
		}
	}
	cmd := exec.Command(self, ChildArg)
	if cmd.Stderr, cmd.SysProcAttr = os.Stderr, (&syscall.SysProcAttr{Setsid: true}); c.Sandbox {
		cmd.SysProcAttr = sandboxed(c.Network)
	}
	config, err2 := cmd.StdinPipe() // the host ends when this pipe closes
	out, err3 := cmd.StdoutPipe()
	if err = errors.Join(err, err2, err3); err != nil {
		return nil, err
	} else if err = cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNoSandbox, err)
	}
	data, _ := json.Marshal(c)
	_, err = config.Write(data)
	data, _ = io.ReadAll(out)
	var r Report
	if err = errors.Join(err, cmd.Wait()); json.Unmarshal(data, &r) != nil {
		return nil, fmt.Errorf("the process that collects the commands ended early: %v", err)
	} else if r.Err != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoSandbox, r.Err)
	}
	return &r, nil
}

// Host is the main function of the child that Run starts. With a sandbox, it runs twice: first
// outside, then inside, with the folder of the recorders as its argument.
func Host(args []string) int {
	var h host
	var err error
	if len(args) > 0 {
		data, _ := os.ReadFile(args[0] + "/config")
		err = json.Unmarshal(data, &h.Config)
	} else if err = json.NewDecoder(os.Stdin).Decode(&h.Config); err == nil {
		err = h.prepare()
	}
	if err == nil {
		err = h.serve()
	}
	if err != nil {
		h.report.Err = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(h.report)
	return 0
}

// prepare creates the sandbox and the folder of recorders.
func (h *host) prepare() (err error) {
	root := ""
	if h.Sandbox {
		if root, err = h.build(); err != nil {
			return err
		}
	}
	bin, py := root+h.Home+"/bin/", root+h.Home+"/py"
	brief, _ := scripts.ReadFile("fakes/sitecustomize.py") // lets the host end the sleeps of Python programs that run for real
	data, err := json.Marshal(h.Config)
	err = errors.Join(err, os.MkdirAll(bin, 0o755), os.MkdirAll(py, 0o755), os.WriteFile(py+"/sitecustomize.py", brief, 0o644), os.WriteFile(root+h.Home+"/config", data, 0o644))
	for _, name := range h.names() {
		if e := os.Symlink(h.Self, bin+name); !os.IsExist(e) {
			err = errors.Join(err, e)
		}
	}
	if err == nil && h.Sandbox {
		err = h.enter(root)
	}
	return err
}

// programs are the names of programs to record, in addition to the fakes and those given with --record.
var programs = strings.Fields("python python2 python3 python3.6 python3.7 python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 pypy3 torchrun accelerate deepspeed mpirun mpiexec horovodrun " +
	"docker nvidia-docker podman apptainer singularity conda mamba micromamba wandb julia Rscript")

var (
	condaName = source.Regexp(`^(?:conda|mamba|micromamba)$`) // conda run is recorded, but conda activate must change the launcher's shell
	// containerTool matches commands that make or manage images and containers, but run no program.
	containerTool = source.Regexp(`^(?:\S*/)?(?:(?:docker|nvidia-docker|podman) (?:build|buildx|cp|image|images|info|inspect|kill|load|login|logout|logs|network|ps|pull|push|rm|rmi|stop|system|tag|version|volume|wait|--version|-v)|(?:apptainer|singularity) (?:build|cache|inspect|pull|push|version|--version))(?: |$)`)
	pythonName    = source.Regexp(`^(?:python|pypy)[0-9.]*$`)
	// launcherPython matches the arguments of Python calls that are part of the launcher: inline code,
	// tools, and queries such as --version.
	launcherPython = source.Regexp(`^(?:-[WX] \S+ |-\S+ )*(?:-[A-Za-z]{0,2}c(?: |$)|(?:-V|-h|--version|--help)(?: |$)|(?:-m |/\S*/)(?:pip3?|conda|mamba|venv|ensurepip|virtualenv|site|sysconfig|json\.tool|http\.server|compileall|zipfile|tarfile|base64|timeit|simple_hypersearch)(?: |$))`)
)

func python(path string) bool { return pythonName().MatchString(filepath.Base(path)) }

// names returns the program names that gpurun stands in for.
func (h *host) names() []string {
	list := slices.AppendSeq(slices.Clone(programs), maps.Keys(fakes))
	for _, g := range h.Record {
		if name, _, _ := strings.Cut(g, " "); name != "" && !strings.ContainsAny(name, "*?[/") {
			list = append(list, name)
		}
	}
	return list
}
