package cli

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gpurun/runner/batches"
	"gpurun/runner/session"
)

// grammar is the command line, in the order of the help.
type grammar struct {
	globalFlags

	Run        runCmd        `cmd:"" default:"withargs" help:"Run jobs that are not up to date (\"gpurun FILE\" is the same)."`
	Add        addCmd        `cmd:"" help:"Append a job to a job file, and to its live run."`
	Plan       planCmd       `cmd:"" help:"Show which jobs would run, and why. Starts nothing."`
	Check      checkCmd      `cmd:"" help:"Report every error and warning in job files."`
	Convert    convertCmd    `cmd:"" help:"Print a job file of any format as native YAML."`
	Status     statusCmd     `cmd:"" help:"Show the progress of a batch, running or not."`
	Ls         lsCmd         `cmd:"" help:"List the batches that you have run on this host."`
	Why        whyCmd        `cmd:"" help:"Explain why a job waits, failed, ran again or was skipped."`
	Events     eventsCmd     `cmd:"" help:"Print the events of a batch as lines of JSON, for programs."`
	Log        logCmd        `cmd:"" help:"Print the log of a job's newest attempt."`
	Results    resultsCmd    `cmd:"" help:"Show what the jobs have measured, averaged over their seeds."`
	Report     reportCmd     `cmd:"" help:"Write a page about a batch: its jobs over time, results, failures."`
	Wait       waitCmd       `cmd:"" help:"Wait until a run, or some of its jobs, have ended; exit with their status."`
	History    historyCmd    `cmd:"" help:"Show what happened: each run in a few lines, or the attempts of jobs."`
	Stop       stopCmd       `cmd:"" help:"Stop a run, or some of its jobs."`
	Retry      retryCmd      `cmd:"" help:"Have failed jobs of a run start again, at once."`
	Pause      pauseCmd      `cmd:"" help:"Start nothing more for now, or none of some jobs."`
	Resume     resumeCmd     `cmd:"" help:"Undo gpurun pause and gpurun stop --drain."`
	Reload     reloadCmd     `cmd:"" help:"Have a run read its job files again."`
	Set        setCmd        `cmd:"" help:"Change settings of a run, or what its jobs ask for."`
	Forget     forgetCmd     `cmd:"" help:"Make finished jobs run again next time."`
	Done       doneCmd       `cmd:"" help:"Record jobs as done without running them."`
	GPUs       gpusCmd       `cmd:"" name:"gpus" help:"Show the GPUs, their users, and which ones a job could use."`
	Queue      queueCmd      `cmd:"" help:"Show who waits for GPUs on this host, in which order, and why."`
	Usage      usageCmd      `cmd:"" help:"Show how many GPU hours users have had, and batches took."`
	Web        webCmd        `cmd:"" help:"Serve a page of your batches and this host's GPUs, with a JSON API."`
	Exec       execCmd       `cmd:"" help:"Run one command as soon as GPUs are free."`
	MCP        mcpCmd        `cmd:"" name:"mcp" help:"Let an AI agent use gpurun: a server of the Model Context Protocol."`
	Notify     notifyCmd     `cmd:"" help:"Show who gets news of a run, and try that."`
	Doctor     doctorCmd     `cmd:"" help:"Find out what would keep runs here from working, and the cure."`
	Version    versionCmd    `cmd:"" help:"Print the versions of gpurun, Go, NVML and the driver."`
	Completion completionCmd `cmd:"" help:"Print a completion script for bash, zsh or fish."`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" help:"Print what a word may become, for completion."`
	Man        manCmd        `cmd:"" name:"__man" hidden:"" help:"Print the manual page."`
}

// globalFlags apply to every command.
type globalFlags struct {
	Help     helpFlag `short:"h" help:"Show this help."`
	StateDir string   `env:"GPURUN_STATE_DIR" placeholder:"DIR" help:"Keep the ledger, logs and lock in DIR instead of .gpurun next to the job file."`
	LogLevel string   `enum:"debug,info,warn,error" default:"info" help:"Log level of run.log: ${enum}."`
	NoColor  bool     `help:"Disable colors, as NO_COLOR in the environment does."`
}

// batchFlags select the job files, and how to read them.
type batchFlags struct {
	Files    []string      `arg:"" optional:"" name:"file" help:"Job files; several form one batch, earlier files first."`
	JobFile  []string      `sep:"none" placeholder:"FILE" help:"A job file, as a flag."`
	Format   string        `placeholder:"yaml|block|lines" help:"Format of the files; detected by default."`
	Param    []string      `short:"p" sep:"none" placeholder:"KEY=VALUE" help:"Replace a parameter of the jobs, or a matrix axis: -p lr=0.1 -p seed=1,2,3."`
	Config   string        `placeholder:"FILE" help:"Settings of a block file, instead of the config.yaml next to it."`
	List     lineFlags     `embed:"" group:"lines"`
	Settings settingsFlags `embed:"" group:"settings"`
}

// jobFlags are those of the commands that judge jobs.
type jobFlags struct {
	batchFlags  `embed:""`
	chooseFlags `embed:""`
	gpuFlags    `embed:""`
}

// settingsFlags are a batch's settings, passed to jobspec as typed.
type settingsFlags struct {
	MaxConcurrent string `short:"j" placeholder:"N" help:"Run at most N jobs at once."`
	MinMemory     string `placeholder:"SIZE" help:"Free memory a GPU needs, for jobs that do not set it; a bare number is MiB."`
	MaxUtil       string `placeholder:"PERCENT" help:"Highest utilization a GPU may have, for jobs that do not set it."`
	Poll          string `placeholder:"TIME" help:"How often to read the GPUs while jobs wait; a bare number is seconds."`
	MaxWait       string `placeholder:"TIME" help:"Give up once a ready job has waited this long for a GPU."`
	WorkDir       string `placeholder:"DIR" help:"Directory that jobs run in."`
	GPUIDs        string `name:"gpu-ids" placeholder:"IDS" help:"Use only these GPUs: 0,2-3 or UUIDs."`
	Reserve       string `placeholder:"N" help:"Leave the N GPUs with the highest indices free."`
	MinGPUs       string `name:"min-gpus" placeholder:"N" help:"Use up to N GPUs even if --reserve leaves fewer."`
	MaxGPUs       string `name:"max-gpus" placeholder:"N" help:"Never use more than N GPUs at once."`
	Hours         string `placeholder:"HOURS" help:"Start jobs only then: 20:00-08:00, or \"Mon-Fri 20:00-08:00, Sat-Sun\"."`
	Background    bool   `negatable:"" help:"Use only GPUs that nobody else waits for, and give them back when somebody does."`
	Share         bool   `negatable:"" help:"Let jobs share a GPU as long as its memory suffices."`
	Slots         string `placeholder:"N" help:"Let at most N jobs share a GPU; each gets 1/N of its memory unless it says how much."`
	Others        string `placeholder:"allow|avoid" help:"Whether to use GPUs that run other users' processes."`
	Pick          string `placeholder:"POLICY" help:"How to choose among the GPUs that fit: most-free, least-util, first-fit, best-fit, round-robin."`
	Order         string `placeholder:"ORDER" help:"Order in which to try jobs: file, shuffle, largest-first, longest-first."`
	ShuffleSeed   string `placeholder:"N" help:"Repeat the order of an earlier shuffled run (it printed its seed)."`
	Patience      string `placeholder:"TIME" help:"How long smaller jobs may overtake the first waiting job."`
	Grace         string `placeholder:"TIME" help:"Time between SIGTERM and SIGKILL."`
	FailFast      bool   `negatable:"" help:"Stop everything at the first failure."`
	Program       string `placeholder:"CMD" help:"Program that experiment lists run, instead of python test.py."`
	Allow         string `placeholder:"LINTS" help:"Lints to turn off, e.g. pinned,background; see docs/reference/jobfile.md."`
	SeedAs        string `placeholder:"config|argument" help:"How experiment lists pass the seed."`
	Breaker       string `placeholder:"N" help:"Hold a family of jobs once the first attempts of N jobs failed alike; 0 for never."`
	Pools         string `placeholder:"NAME=N" help:"How many jobs may use something at once, e.g. disk=4,net=2; see docs/reference/jobfile.md."`
	Engine        string `placeholder:"NAME" help:"What runs the jobs: local (this host), slurm or sge (a cluster); see docs/reference/clusters.md."`
	Cluster       string `placeholder:"KEY=VALUE" help:"What only the cluster knows, e.g. partition=gpu,account=vision."`
	Snapshot      bool   `negatable:"" help:"Run jobs in a copy of the code as it is now, so that you can go on editing it."`
	Learn         bool   `negatable:"" help:"Go by what jobs like these took before, for the memory of jobs that do not set it and for estimates."`
}

// gpuFlags select where the GPUs come from.
type gpuFlags struct {
	Sim  string `env:"GPURUN_SIM" placeholder:"SPEC" help:"Use simulated GPUs: 4x24GiB, or a YAML file."`
	NVML string `name:"nvml" env:"GPURUN_NVML" placeholder:"PATH" help:"NVML library to load instead of libnvidia-ml.so.1."`
}

// simFlag belongs to the commands that start jobs.
type simFlag struct {
	SimHere bool `env:"GPURUN_SIM_HERE" help:"Allow --sim on a machine with GPUs: jobs run for real and may use them."`
}

func (f *gpuFlags) source() *session.GPUs { return &session.GPUs{Sim: f.Sim, Library: f.NVML} }

// source returns where the GPUs of jobs come from.
func (here simFlag) source(f *gpuFlags) *session.GPUs {
	return &session.GPUs{Sim: f.Sim, Here: here.SimHere, Library: f.NVML}
}

// batchFlag names the batch that a command like status or stop is about.
type batchFlag struct {
	File string `placeholder:"FILE" help:"Job file of the batch. Default: the one running in this folder, or the last that ran here."`
}

// paths returns all job files on the command line.
func (a *app) paths(b *batchFlags) ([]string, error) {
	listed, err := b.listed()
	if err != nil {
		return nil, err
	}
	paths := slices.Concat(listed, b.JobFile, b.Files)
	if len(paths) == 0 {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "no job file given",
			Hint: "try gpurun FILE, e.g. gpurun jobs/multi_seed.yaml; gpurun --help lists the commands"}
	}
	for _, p := range paths[len(listed):] {
		if _, ok := a.Lines(p); ok {
			continue // the name of a list that was no file
		}
		if err := notACommand(p); err != nil {
			return nil, cmp.Or(a.JobNamed(p), err)
		}
	}
	return paths, nil
}

// groupTitles are the groups of flags that several commands have.
var groupTitles = []kong.Group{
	{Key: "lines", Title: "Lists of commands:"},
	{Key: "settings", Title: "Settings (these override the job files):"},
}

// helpFlag prints the help of the command it is given to.
type helpFlag bool

var errHelpShown = errors.New("help shown")

// IgnoreDefault makes gpurun --help show all commands instead of run's flags.
func (helpFlag) IgnoreDefault() {}

// BeforeReset is called as soon as the flag is read.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelpShown
}

// A command is a field of the grammar.
type command struct {
	name  string
	field reflect.StructField
}

func commands() (list []command) {
	for f := range reflect.TypeFor[grammar]().Fields() {
		if _, is := f.Tag.Lookup("cmd"); is {
			list = append(list, command{cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)), f})
		}
	}
	return list
}

// shownCommands returns the names of those that are not hidden.
func shownCommands() (names []string) {
	for _, c := range commands() {
		if _, hidden := c.field.Tag.Lookup("hidden"); !hidden {
			names = append(names, c.name)
		}
	}
	return names
}

// newParser returns the parser of a command line. Of commands that it cannot mean, because
// their names are not among its words, only the names are known: to read the flags of all
// would be half of what every command takes to start. For none, and for gpurun's own commands
// such as __complete, it knows everything.
func newParser(root *grammar, a *app, words []string) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name("gpurun"),
		kong.Description("Runs batch job files on the GPUs of a shared machine: waits for free GPUs, runs the jobs that are not up to date, and exits when all are finished.\n\nExamples: gpurun jobs.yaml; gpurun plan jobs.yaml; gpurun --sim 4x24GiB jobs.yaml; gpurun status -w. For details: gpurun help COMMAND."),
		kong.NoDefaultHelp(),
		kong.Writers(a.out, a.Err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110, NoExpandSubcommands: true}),
		kong.ExplicitGroups(groupTitles),
		kong.Exit(func(code int) { panic(fmt.Sprintf("kong tried to exit with %d", code)) }),
	}
	fields, all := reflect.ValueOf(root).Elem(), len(words) == 0 || strings.HasPrefix(words[0], "__")
	for _, c := range commands() {
		var target any = &struct{}{}
		_, isDefault := c.field.Tag.Lookup("default")
		if all || isDefault || slices.Contains(words, c.name) {
			target = fields.FieldByIndex(c.field.Index).Addr().Interface()
		}
		options = append(options, kong.DynamicCommand(c.name, c.field.Tag.Get("help"), "", target, string(c.field.Tag)))
	}
	options = append(options, kong.KindMapper(reflect.String, kong.MapperFunc(asGiven)))
	return kong.New(&root.globalFlags, options...)
}

// givenSettings returns the settings given on the command line.
func givenSettings(ctx *kong.Context) map[string]string {
	given := map[string]string{}
	for _, p := range ctx.Path {
		if f := p.Flag; f != nil && f.Group != nil && f.Group.Key == "settings" {
			given[f.Name] = fmt.Sprint(ctx.FlagValue(f))
		}
	}
	return given
}

// asGiven takes an argument byte by byte. The library's own way is through JSON, which has no path that is
// not UTF-8.
func asGiven(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("string")
	if err == nil {
		target.SetString(fmt.Sprint(t.Value))
	}
	return err
}
