// Package capture runs a launcher with recorders in place of the programs that it starts. A child
// of gpurun, the host, makes a sandbox, starts the launcher in it, and answers the recorders:
// gpurun under the names of other programs. What is recorded never runs.
//
// A recorder stays until the host lets it go, and the host lets one go only when nothing else
// happens: every other thread sleeps. So what overlaps does not depend on how busy the machine is.
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
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says what to run, and what to do with what it starts.
type Config struct {
	Programs         []Program // the launcher, or the jobs of a proof, side by side
	Proof            bool      // everything is recorded, and nothing held
	Oldest           bool      // let the oldest command go first, not the youngest
	Sandbox, Network bool
	GPUs             int
	Record, Run      []string          // globs of whole commands
	Limit            time.Duration     // for a launcher that starts nothing new
	Most             int               // processes at once, besides those that are recorded
	Home             string            // where the recorders are
	Self             string            // gpurun
	Originals        map[string]string // where those are that recorders cover
}

// A Program is a command to run.
type Program struct {
	Argv, Env []string
	Dir       string
}

// A Record is one command that was not run.
type Record struct {
	Argv, Env             []string
	Dir                   string
	Stdin, Stdout, Stderr string // files; "" for those of the launcher
	Began, Ended          int    // see fold.Command
}

// A Report is what happened.
type Report struct {
	Commands []Record // in the order of the launcher, whatever raced
	Status   int      // of the launcher; 128 and more for a signal
	Stopped  string   // why it was stopped, if it was
	Last     string   // the last line of its output
	Warnings []string
	Err      string // why there was no sandbox
}

const ChildArg = "__capture" // the first argument of the host

// ErrNoSandbox means that the system allows no user namespaces.
var ErrNoSandbox = errors.New("no user namespaces here")

// Limit bounds a launcher that starts nothing new, and Most how many processes it has at once.
var Limit, Most = time.Minute, 300

// Run runs the programs of a config and returns what they started.
func Run(c Config) (*Report, error) {
	self, err := os.Executable()
	if c.Self, c.Limit, c.Most, c.Home = self, Limit, Most, fixedHome; !c.Sandbox && err == nil {
		c.Home, err = os.MkdirTemp("", "gpurun-capture-")
		defer os.RemoveAll(c.Home)
	}
	cmd := exec.Command(self, ChildArg)
	if cmd.Stderr, cmd.SysProcAttr = os.Stderr, (&syscall.SysProcAttr{Setsid: true}); c.Sandbox {
		cmd.SysProcAttr = sandboxed(c.Network)
	}
	config, err2 := cmd.StdinPipe() // the host ends when this process does
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
		return nil, fmt.Errorf("the host of the recorders ended early: %v", err)
	} else if r.Err != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoSandbox, r.Err)
	}
	return &r, nil
}

// Host is the child that Run starts: first outside, then, with its home as argument, in the sandbox.
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

// prepare makes the sandbox, and the folder of recorders.
func (h *host) prepare() (err error) {
	root := ""
	if h.Sandbox {
		if root, err = h.build(); err != nil {
			return err
		}
	}
	bin, py := root+h.Home+"/bin/", root+h.Home+"/py"
	brief, _ := scripts.ReadFile("fakes/sitecustomize.py") // for Python that runs for real: the host says when a sleep is over
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

// programs are recorded by name, besides the fakes and what --record names.
var programs = strings.Fields("python python2 python3 python3.6 python3.7 python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 pypy3 torchrun accelerate deepspeed mpirun mpiexec horovodrun " +
	"docker podman apptainer singularity conda mamba micromamba wandb julia Rscript")

var (
	pythonName = regexp.MustCompile(`^(?:python|pypy)[0-9.]*$`)
	// plumbing matches the arguments of Python that is part of the launcher: code, tools, and questions about Python.
	plumbing = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:-[WX] \S+ |-\S+ )*(?:-[A-Za-z]{0,2}c(?: |$)|(?:-V|-h|--version|--help)(?: |$)|(?:-m |/\S*/)(?:pip3?|conda|mamba|venv|ensurepip|virtualenv|site|sysconfig|json\.tool|http\.server|compileall|zipfile|tarfile|base64|timeit)(?: |$))`)
	})
)

func python(path string) bool { return pythonName.MatchString(filepath.Base(path)) }

// names returns the names under which gpurun stands in for others.
func (h *host) names() []string {
	list := slices.AppendSeq(slices.Clone(programs), maps.Keys(fakes))
	for _, g := range h.Record {
		if name, _, _ := strings.Cut(g, " "); name != "" && !strings.ContainsAny(name, "*?[/") {
			list = append(list, name)
		}
	}
	return list
}
