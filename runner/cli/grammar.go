package cli

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kong"
)

// grammar is the command line. The order is that of the help.
type grammar struct {
	globalFlags

	Run        runCmd        `cmd:"" default:"withargs" help:"Run what is not up to date; \"gpurun FILE\" is the same."`
	Plan       planCmd       `cmd:"" help:"Say which jobs would run and why; start nothing."`
	Check      checkCmd      `cmd:"" help:"Read the files and print every error and warning."`
	Status     statusCmd     `cmd:"" help:"Show how far a batch is, whether or not it runs now."`
	Log        logCmd        `cmd:"" help:"Print a job's log, newest attempt."`
	Stop       stopCmd       `cmd:"" help:"End jobs of a run, or the whole run."`
	Forget     forgetCmd     `cmd:"" help:"Have completed jobs run again next time."`
	Done       doneCmd       `cmd:"" help:"Record jobs as succeeded without running them."`
	GPUs       gpusCmd       `cmd:"" name:"gpus" help:"Show the GPUs, who uses them, and whether a job would be let on."`
	Exec       execCmd       `cmd:"" help:"Run one command on GPUs as soon as there are some."`
	Version    versionCmd    `cmd:"" help:"Print the versions of gpurun, Go, NVML and the driver."`
	Completion completionCmd `cmd:"" help:"Print a completion script for bash, zsh or fish."`
	Names      namesCmd      `cmd:"" name:"__names" hidden:"" help:"Print the names of jobs, for completion."`
}

// globalFlags are those of every command.
type globalFlags struct {
	Help     helpFlag `short:"h" help:"Show this help."`
	StateDir string   `env:"GPURUN_STATE_DIR" placeholder:"DIR" help:"Keep ledger, logs and lock in DIR instead of .gpurun beside the job file."`
	LogLevel string   `enum:"debug,info,warn,error" default:"info" help:"What goes into run.log: ${enum}."`
	NoColor  bool     `help:"No colours; NO_COLOR in the environment does the same."`
}

// batchFlags say which files are read, and how.
type batchFlags struct {
	Files    []string      `arg:"" optional:"" name:"file" help:"Job files; several are one batch, earlier files first."`
	JobFile  []string      `sep:"none" placeholder:"FILE" help:"A job file, for those who like it as a flag."`
	Format   string        `placeholder:"yaml|block" help:"The files' format, instead of finding it out."`
	Config   string        `placeholder:"FILE" help:"Settings of a block file, instead of config.yaml beside it."`
	Settings settingsFlags `embed:"" group:"settings"`
}

// settingsFlags are the settings of a batch; texts go to jobspec as they were typed.
type settingsFlags struct {
	MaxConcurrent string `placeholder:"N" help:"Jobs at once."`
	MinMemory     string `placeholder:"SIZE" help:"Free memory a GPU must have for a job that does not say; a bare number is MiB."`
	MaxUtil       string `placeholder:"PERCENT" help:"And at most this busy."`
	Poll          string `placeholder:"TIME" help:"How often the GPUs are read while something waits; a bare number is seconds."`
	MaxWait       string `placeholder:"TIME" help:"Give up when a ready job has found no GPU for so long."`
	WorkDir       string `placeholder:"DIR" help:"Where jobs run."`
	GPUIDs        string `name:"gpu-ids" placeholder:"IDS" help:"GPUs to manage: 0,2-3 or UUIDs."`
	Reserve       string `placeholder:"N" help:"Keep the N highest GPU indices free."`
	MinGPUs       string `name:"min-gpus" placeholder:"N" help:"Take up to N GPUs whatever --reserve says."`
	MaxGPUs       string `name:"max-gpus" placeholder:"N" help:"Never hold more than N GPUs."`
	Share         bool   `negatable:"" help:"Let jobs stand on a GPU beside others, as far as the memory goes."`
	Others        string `placeholder:"allow|avoid" help:"Whether GPUs with other users' processes may be used."`
	Pick          string `placeholder:"POLICY" help:"Which GPU of those that fit: most-free, least-util, first-fit, best-fit, round-robin."`
	Order         string `placeholder:"ORDER" help:"In which order jobs are tried: file, shuffle, largest-first."`
	ShuffleSeed   string `placeholder:"N" help:"Repeat the order of an earlier shuffled run, which printed its seed."`
	Patience      string `placeholder:"TIME" help:"How long smaller jobs may pass the first that waits."`
	Grace         string `placeholder:"TIME" help:"Between SIGTERM and SIGKILL."`
	FailFast      bool   `negatable:"" help:"Stop everything at the first failure."`
	Program       string `placeholder:"CMD" help:"Program of experiment lists, instead of python test.py."`
	Allow         string `placeholder:"LINTS" help:"Lints that are not meant: pinned,background; see docs/jobfile.md."`
	SeedAs        string `placeholder:"config|argument" help:"How experiment lists pass the seed."`
	Breaker       string `placeholder:"N" help:"Hold jobs of a kind once the first N attempts failed alike; 0 for never."`
}

// gpuFlags say where GPUs are looked for.
type gpuFlags struct {
	Sim  string `env:"GPURUN_SIM" placeholder:"SPEC" help:"Simulated GPUs instead of real ones: 4x24GiB, or a YAML file."`
	NVML string `name:"nvml" env:"GPURUN_NVML" placeholder:"PATH" help:"NVML library to load instead of libnvidia-ml.so.1."`
}

// simFlag is of the commands that start jobs.
type simFlag struct {
	SimHere bool `env:"GPURUN_SIM_HERE" help:"Allow --sim on a machine with GPUs: jobs run for real and may use them."`
}

// batchFlag names the batch that commands beside a run are about.
type batchFlag struct {
	File string `placeholder:"FILE" help:"Its job file, instead of the batch that runs in this folder, or ran last here."`
}

// paths are all job files of the command line.
func (b *batchFlags) paths() ([]string, error) {
	paths := append(append([]string(nil), b.JobFile...), b.Files...)
	if len(paths) == 0 {
		return nil, &failure{code: exitUsage, text: "no job file given",
			hint: "say gpurun FILE, for instance gpurun jobs/multi_seed.yaml; gpurun --help lists all commands"}
	}
	for _, p := range paths {
		if err := notACommand(p); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// helpFlag prints the help of the command that it stands in.
type helpFlag bool

var errHelpShown = errors.New("help shown")

// IgnoreDefault has gpurun --help show all commands instead of run's flags.
func (helpFlag) IgnoreDefault() {}

// BeforeReset is called as soon as the flag has been read.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelpShown
}

func newParser(root *grammar, a *app) (*kong.Kong, error) {
	return kong.New(root,
		kong.Name("gpurun"),
		kong.Description("Runs batch job files on the GPUs of a shared machine: waits for free ones, runs what is not up to date, and ends when all is finished.\n\nExamples: gpurun jobs.yaml; gpurun plan jobs.yaml; gpurun --sim 4x24GiB jobs.yaml; gpurun status -w. More with gpurun COMMAND --help."),
		kong.NoDefaultHelp(),
		kong.Writers(a.out, a.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "settings", Title: "Settings, stronger than those of the files:"}}),
		kong.Exit(func(code int) { panic(fmt.Sprintf("kong wants to exit with %d", code)) }),
	)
}

// givenSettings are the settings that the command line names.
func givenSettings(ctx *kong.Context) map[string]string {
	given := map[string]string{}
	for _, p := range ctx.Path {
		if f := p.Flag; f != nil && f.Group != nil && f.Group.Key == "settings" {
			given[f.Name] = fmt.Sprint(ctx.FlagValue(f))
		}
	}
	return given
}
