package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"gpurun/gpu"
	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
)

type execCmd struct {
	gpuFlags  `embed:""`
	simFlag   `embed:""`
	needFlags `embed:""`
	GPUs      countFlag  `name:"gpus" short:"g" default:"1" placeholder:"N" help:"Number of GPUs; 2-4 for at least 2 and up to 4 (default: ${default})."`
	CPUs      uint16     `name:"cpus" placeholder:"N" help:"CPU cores to reserve."`
	Memory    memoryFlag `placeholder:"SIZE" help:"Host memory to reserve."`
	Poll      timeFlag   `default:"5s" placeholder:"TIME" help:"How often to read the GPUs while waiting (default: ${default})."`
	MaxWait   timeFlag   `default:"0s" placeholder:"TIME" help:"Give up after this long, with exit status 124 (default: never)."`
	NoWait    bool       `help:"Exit with status 75 if too few GPUs are free now."`
	Name      string     `placeholder:"NAME" help:"Name for the command, shown by gpus and accepted by stop --exec (default: the program's name)."`
	Engine    string     `group:"settings" placeholder:"NAME" help:"Where to run the command: local (this host), slurm or sge (default: local)."`
	Cluster   string     `group:"settings" placeholder:"KEY=VALUE" help:"Cluster settings, e.g. partition=gpu,account=vision."`
	MaxGPUs   string     `group:"settings" name:"max-gpus" placeholder:"N" help:"On a cluster, wait until your jobs, with this one, request at most N GPUs."`
	Command   []string   `arg:"" optional:"" passthrough:"partial" name:"cmd" help:"The command and its arguments."`
}

func (execCmd) Help() string {
	return helpText("The command uses the terminal, and gpurun exits with its status.",
		"gpurun exec -- python train.py --lr 1e-3",
		"gpurun exec -g 2 -m 40GiB -- torchrun --nproc-per-node 2 train.py",
		"gpurun exec --name notebook -- jupyter lab     # gpurun stop --exec notebook ends it")
}

// afterDashes returns a command without the -- before it.
func afterDashes(argv []string) []string {
	if len(argv) > 0 && argv[0] == "--" {
		return argv[1:]
	}
	return argv
}

func (c *execCmd) Run(a *app) error {
	argv := afterDashes(c.Command)
	if len(argv) == 0 {
		return &batches.Failure{Code: batches.ExitUsage, Text: "no command given", Hint: "try gpurun exec -- CMD, e.g. gpurun exec -- python train.py"}
	}
	c.Name = cmp.Or(c.Name, filepath.Base(argv[0]))
	s, err := a.execSettings()
	switch {
	case err != nil:
		return err
	case s.Engine != "local":
		return c.onCluster(a, &s, argv)
	case c.MaxGPUs != "":
		return &batches.Failure{Code: batches.ExitUsage, Text: "--max-gpus works only on clusters", Hint: "add --engine slurm; on this host, the owner's rules limit your GPUs (gpurun gpus shows the rules)"}
	}
	if err := c.fits(batches.Resources()); err != nil {
		return err
	}
	c.inherit(&s)
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return session.CannotExecute(argv[0], err)
	}
	answered := a.announceDriverWait(c.GPUs.min == 0 || c.Sim != "" && c.SimHere)
	defer answered()
	e := &session.Exec{
		Process: a.Process, Name: c.Name, Source: c.source(c.SimHere), Request: c.request(c.GPUs), Needs: c.needs(),
		Rules: c.rules(time.Duration(c.Poll), c.NoWait), MaxWait: time.Duration(c.MaxWait), Opened: a.printHostNotes, Answered: answered,
		Tell: func(text string) { fmt.Fprintln(a.Err, "gpurun: "+terminal.CleanText(text)) },
	}
	err = e.Run(path, argv)
	if f := (*batches.Failure)(nil); errors.As(err, &f) && e.GaveUp > 0 {
		f.Text = "gave up after " + terminal.Duration(e.GaveUp) + ": " + f.Text
	}
	return err
}

// needs returns the host resources that the command needs.
func (c *execCmd) needs() gpu.HostResources {
	return gpu.HostResources{CPUs: int(c.CPUs), RAM: gpu.Bytes(c.Memory)}
}

// fits refuses needs that exceed the host's resources or that no claim could express.
func (c *execCmd) fits(has gpu.HostResources) error {
	switch need := c.needs(); {
	case need == gpu.HostResources{}:
		return nil
	case c.GPUs.min == 0:
		return &batches.Failure{Code: batches.ExitUsage, Text: "--cpus and --memory need GPUs, but -g 0 requests no GPU", Hint: "remove them, or write a job file"}
	case has.CPUs > 0 && need.CPUs > has.CPUs:
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("--cpus %d, but this machine has %d", need.CPUs, has.CPUs)}
	case has.RAM > 0 && need.RAM > has.RAM:
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("--memory %s, but this machine has %s", need.RAM.Asked(), has.RAM.Round())}
	}
	return nil
}
