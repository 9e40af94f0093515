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

	Run        runCmd        `cmd:"" default:"withargs" group:"Run" help:"Run the jobs of a file that are not up to date."`
	Add        addCmd        `cmd:"" group:"Run" help:"Append a job to a job file and its live run."`
	Plan       planCmd       `cmd:"" group:"Run" help:"Show which jobs would run, and why."`
	Check      checkCmd      `cmd:"" group:"Run" help:"Report every mistake in job files."`
	Convert    convertCmd    `cmd:"" group:"Run" help:"Print a job file of any format as native YAML."`
	Capture    captureCmd    `cmd:"" group:"Run" help:"Turn a launcher into a job file, without training."`
	Exec       execCmd       `cmd:"" group:"Run" help:"Run one command as soon as GPUs are free."`
	Wait       waitCmd       `cmd:"" group:"Run" help:"Wait for a run, or some of its jobs, to end."`
	Status     statusCmd     `cmd:"" group:"Look" help:"Show the progress of a batch."`
	Why        whyCmd        `cmd:"" group:"Look" help:"Explain why a job is waiting, failed or ran again."`
	Log        logCmd        `cmd:"" group:"Look" help:"Print the log of a job."`
	Results    resultsCmd    `cmd:"" group:"Look" help:"Tabulate metrics of jobs, averaged over seeds."`
	Report     reportCmd     `cmd:"" group:"Look" help:"Write an HTML report about a batch."`
	History    historyCmd    `cmd:"" group:"Look" help:"Show past runs, or the attempts of jobs."`
	Ls         lsCmd         `cmd:"" group:"Look" help:"List your batches on this host."`
	Events     eventsCmd     `cmd:"" group:"Look" help:"Print the events of a batch as JSON lines."`
	Web        webCmd        `cmd:"" group:"Look" help:"Serve a web page of your batches and a JSON API."`
	Stop       stopCmd       `cmd:"" group:"Steer" help:"Stop a run, or some of its jobs."`
	Retry      retryCmd      `cmd:"" group:"Steer" help:"Restart failed jobs of a run now."`
	Pause      pauseCmd      `cmd:"" group:"Steer" help:"Pause a run, or some of its jobs."`
	Resume     resumeCmd     `cmd:"" group:"Steer" help:"Undo gpurun pause and gpurun stop --drain."`
	Reload     reloadCmd     `cmd:"" group:"Steer" help:"Reread the job files of a run."`
	Set        setCmd        `cmd:"" group:"Steer" help:"Change settings of a run, or of its jobs."`
	Forget     forgetCmd     `cmd:"" group:"Steer" help:"Make finished jobs run again next time."`
	Done       doneCmd       `cmd:"" group:"Steer" help:"Record jobs as done without running them."`
	GPUs       gpusCmd       `cmd:"" name:"gpus" group:"Host" help:"Show GPUs, their users, and which fit a job."`
	Queue      queueCmd      `cmd:"" group:"Host" help:"Show who is waiting for GPUs, in order."`
	Usage      usageCmd      `cmd:"" group:"Host" help:"Show GPU hours by user and batch, or for one file."`
	Doctor     doctorCmd     `cmd:"" group:"Set up" help:"Check this host and suggest fixes."`
	Notify     notifyCmd     `cmd:"" group:"Set up" help:"Show notification targets, or test them."`
	MCP        mcpCmd        `cmd:"" name:"mcp" group:"Set up" help:"Serve AI agents over the Model Context Protocol."`
	Version    versionCmd    `cmd:"" group:"Set up" help:"Print versions of gpurun, Go and the driver."`
	Completion completionCmd `cmd:"" group:"Set up" help:"Print completions for bash, zsh or fish."`
	Complete   completeCmd   `cmd:"" name:"__complete" group:"Set up" hidden:"" help:"Print the completions of a word."`
	Man        manCmd        `cmd:"" name:"__man" group:"Set up" hidden:"" help:"Print the manual page."`
}

// globalFlags apply to all commands.
type globalFlags struct {
	Help     helpFlag `group:"every command" short:"h" help:"Show this help."`
	StateDir string   `group:"every command" env:"GPURUN_STATE_DIR" placeholder:"DIR" help:"Keep the ledger, logs and lock in DIR (default: .gpurun next to the job file)."`
	LogLevel string   `group:"every command" enum:"debug,info,warn,error" default:"info" help:"Log level of run.log: ${enum}."`
	NoColor  bool     `group:"every command" help:"Disable colors, like NO_COLOR."`
}

// batchFlags select the job files and how to read them.
type batchFlags struct {
	Files    []string      `arg:"" optional:"" name:"file" help:"Job files; several form one batch."`
	JobFile  []string      `group:"job files" sep:"none" placeholder:"FILE" help:"The same as the file argument."`
	Format   string        `group:"job files" placeholder:"yaml|block|lines" help:"Format of the files (default: detected)."`
	Param    []string      `group:"job files" short:"p" sep:"none" placeholder:"KEY=VALUE" help:"Set a job parameter or a matrix axis: -p lr=0.1 -p seed=1,2,3."`
	Config   string        `group:"job files" placeholder:"FILE" help:"Settings of a block file (default: config.yaml next to it)."`
	List     lineFlags     `embed:"" group:"lines"`
	Settings settingsFlags `embed:"" group:"settings"`
}

// jobFlags belong to commands that decide which jobs to run.
type jobFlags struct {
	batchFlags  `embed:""`
	chooseFlags `embed:"" group:"selection"`
	gpuFlags    `embed:""`
}

// settingsFlags are a batch's settings, passed to jobspec unparsed.
type settingsFlags struct {
	MaxConcurrent string `short:"j" placeholder:"N" help:"Run at most N jobs at once (default: no limit)."`
	MinMemory     string `placeholder:"SIZE" help:"Free memory required on each GPU for jobs without gpu_memory; a bare number is MiB (default: 8000MiB)."`
	MaxUtil       string `placeholder:"PERCENT" help:"Start jobs only on GPUs whose utilization is at most PERCENT (default: 30)."`
	Poll          string `placeholder:"TIME" help:"How often to read the GPUs while jobs wait; a bare number is seconds (default: 5s)."`
	MaxWait       string `placeholder:"TIME" help:"Give up when a ready job has waited this long for a GPU (default: 0, never)."`
	WorkDir       string `placeholder:"DIR" help:"Folder in which jobs run (default: the file's folder)."`
	GPUIDs        string `name:"gpu-ids" placeholder:"IDS" help:"Use only these GPUs: 0,2-3 or UUIDs (default: all)."`
	Reserve       string `placeholder:"N" help:"Leave the N GPUs with the highest indices free (default: 0)."`
	MinGPUs       string `name:"min-gpus" placeholder:"N" help:"Use up to N GPUs even if --reserve leaves fewer (default: 0)."`
	MaxGPUs       string `name:"max-gpus" placeholder:"N" help:"Use at most N GPUs at once (default: no limit)."`
	Hours         string `placeholder:"HOURS" help:"Start jobs only at these times: 20:00-08:00, or \"Mon-Fri 20:00-08:00, Sat-Sun\" (default: always)."`
	Background    bool   `negatable:"" help:"Use only GPUs that no other run waits for, and yield them on demand (default: no)."`
	Share         bool   `negatable:"" help:"Let jobs share a GPU if its memory allows (default: no)."`
	Slots         string `placeholder:"N" help:"Let at most N jobs share a GPU, each with 1/N of the GPU's memory by default (default: 0, no limit)."`
	Others        string `placeholder:"allow|avoid" help:"Whether to use GPUs with other users' processes (default: allow)."`
	Pick          string `placeholder:"POLICY" help:"Choose among the GPUs that fit: most-free, least-util, first-fit, best-fit, round-robin (default: most-free)."`
	Order         string `placeholder:"ORDER" help:"Order in which to try jobs: file, shuffle, largest-first, longest-first (default: file)."`
	ShuffleSeed   string `placeholder:"N" help:"Seed of the shuffle, as printed by an earlier run (default: random)."`
	Patience      string `placeholder:"TIME" help:"How long smaller jobs may overtake the first waiting job (default: 10m)."`
	Grace         string `placeholder:"TIME" help:"Time between SIGTERM and SIGKILL (default: 10s)."`
	FailFast      bool   `negatable:"" help:"Stop everything at the first failure (default: no)."`
	Program       string `placeholder:"CMD" help:"Program that experiment lists run (default: python test.py)."`
	Allow         string `placeholder:"LINTS" help:"Lints to turn off, e.g. pinned,background; see gpurun help lint."`
	SeedAs        string `placeholder:"config|argument" help:"How experiment lists pass the seed (default: config)."`
	Breaker       string `placeholder:"N" help:"Hold similar jobs if the first N failed with the same error; 0 for never (default: 5)."`
	Pools         string `placeholder:"NAME=N" help:"How many jobs may use a resource at once, e.g. disk=4,net=2."`
	Engine        string `placeholder:"NAME" help:"Where jobs run: local (this host), slurm or sge (default: local)."`
	Cluster       string `placeholder:"KEY=VALUE" help:"Cluster settings, e.g. partition=gpu,account=vision."`
	Snapshot      bool   `negatable:"" help:"Run jobs in a copy of the code, so that you can keep editing the original (default: no)."`
	Learn         bool   `negatable:"" help:"Learn the memory and time of jobs from earlier runs (default: yes)."`
}

// gpuFlags select the source of the GPUs.
type gpuFlags struct {
	Sim  string `group:"gpus" env:"GPURUN_SIM" placeholder:"SPEC" help:"Use simulated GPUs: 4x24GiB, or a YAML file."`
	NVML string `group:"gpus" name:"nvml" env:"GPURUN_NVML" placeholder:"PATH" help:"NVML library to load (default: libnvidia-ml.so.1)."`
}

// simFlag belongs to commands that start jobs.
type simFlag struct {
	SimHere bool `group:"gpus" env:"GPURUN_SIM_HERE" help:"Allow --sim on a machine with real GPUs, which jobs might use."`
}

// source returns the source of the GPUs. here allows jobs on simulated GPUs even on a machine with
// real ones.
func (f *gpuFlags) source(here bool) *session.GPUs {
	return &session.GPUs{Sim: f.Sim, Here: here, Library: f.NVML}
}

// batchFlag selects the batch for a command such as status or stop.
type batchFlag struct {
	File string `placeholder:"FILE" help:"Job file (default: the one running in this folder, or the last that ran here)."`
}

// only returns the job file given by --file if the batch has several, since other files may have a
// job with the same name. Otherwise, it returns "".
func (b *batchFlag) only(ref *batches.Ref) string {
	if b.File == "" || len(ref.More) == 0 {
		return ""
	}
	return ref.Real
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
			continue // the name of a list from standard input
		}
		if err := notACommand(p); err != nil {
			return nil, cmp.Or(a.JobNamed(p), err)
		}
	}
	return paths, nil
}

// groupTitles are the titles of flag and command groups, in the order of the help.
var groupTitles = []kong.Group{
	{Key: "job files", Title: "Job files:"},
	{Key: "selection", Title: "Which jobs:"},
	{Key: "lines", Title: "Lists of commands:"},
	{Key: "gpus", Title: "GPUs:"},
	{Key: "settings", Title: "Settings (these override the job files):"},
	{Key: "every command", Title: "Flags of every command:"},
	{Key: "Run", Title: "Run:"},
	{Key: "Look", Title: "Look:"},
	{Key: "Steer", Title: "Steer:"},
	{Key: "Host", Title: "Host:"},
	{Key: "Set up", Title: "Set up:"},
}

// helpFlag prints the help of its command.
type helpFlag bool

var errHelpShown = errors.New("help shown")

// IgnoreDefault makes gpurun --help show all commands instead of run's flags.
func (helpFlag) IgnoreDefault() {}

// BeforeReset prints the help as soon as the flag is parsed.
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

// shownCommands returns the names of commands that are not hidden.
func shownCommands() (names []string) {
	for _, c := range commands() {
		if _, hidden := c.field.Tag.Lookup("hidden"); !hidden {
			names = append(names, c.name)
		}
	}
	return names
}

// newParser returns the parser for a command line. It reads only the flags of the default command
// and of commands whose names are among words, because reading all flags would double the startup
// time. Without words, and for internal commands such as __complete, it reads the flags of all
// commands.
func newParser(root *grammar, a *app, words []string) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name("gpurun"),
		kong.Description("Runs the jobs in a file on the GPUs of a shared machine. For help on a command or job file key: gpurun help TOPIC."),
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
		options = append(options, kong.DynamicCommand(c.name, c.field.Tag.Get("help"), c.field.Tag.Get("group"), target, string(c.field.Tag)))
	}
	options = append(options, kong.KindMapper(reflect.String, kong.MapperFunc(asGiven)))
	return kong.New(&root.globalFlags, options...)
}

// given returns the values of those flags of a group that are on the command line, by name.
func given(ctx *kong.Context, group string) map[string]string {
	values := map[string]string{}
	for _, p := range ctx.Path {
		if f := p.Flag; f != nil && f.Group != nil && f.Group.Key == group {
			values[f.Name] = fmt.Sprint(ctx.FlagValue(f))
		}
	}
	return values
}

// asGiven takes an argument unchanged. kong would convert it through JSON, which does not allow
// paths that are not UTF-8.
func asGiven(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("string")
	if err == nil {
		target.SetString(fmt.Sprint(t.Value))
	}
	return err
}
