package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"gpurun/runner/batches"
)

// manCmd prints the manual page, which is generated from the grammar. make install installs it.
type manCmd struct{}

func (manCmd) Run(a *app, ctx *kong.Context) error {
	_, err := a.out.Write(manual(ctx.Model))
	return err
}

// A row is a term of the page and its explanation.
type row struct{ term, text string }

// exitRows explain the exit statuses, in numerical order.
var exitRows = []row{
	{strconv.Itoa(batches.ExitDone), "All jobs succeeded, or there was nothing to do."},
	{strconv.Itoa(batches.ExitFailed), "A job failed, or a run refused a request such as gpurun stop."},
	{strconv.Itoa(batches.ExitUsage), "The files or arguments are invalid; nothing was started."},
	{strconv.Itoa(batches.ExitState), "The state is unavailable: another gpurun is running this file, the disk is full, or the run is on another host."},
	{strconv.Itoa(batches.ExitInternal), "gpurun itself failed."},
	{strconv.Itoa(batches.ExitNotYet), "Not yet: no GPU was free (--no-wait), or the run was still running (wait --timeout)."},
	{strconv.Itoa(batches.ExitGaveUp), "No GPU within max_wait. exec: the host's max_timeout stopped the command."},
	{strconv.Itoa(batches.ExitCannotExecute) + ", " + strconv.Itoa(batches.ExitNotFound), "exec: the command is not executable, or not found. exec otherwise exits with the status of the command, or 128 + N after signal N."},
	{strconv.Itoa(batches.ExitInt) + ", " + strconv.Itoa(batches.ExitTerm), "Ctrl-C (130); SIGTERM or gpurun stop (143)."},
}

// environRows explain the environment variables that do not set a flag.
var environRows = []row{
	{"CUDA_VISIBLE_DEVICES", "If set, gpurun manages only these GPUs."},
	{"GPURUN_CLAIMS_DIR", "Folder through which runs on this host coordinate (default: /var/tmp)."},
	{"GPURUN_HOST_RULES", "Host rules file, if /etc/gpurun/host.yaml does not exist."},
	{"NO_COLOR", "If set, no colors."},
	{"XDG_CONFIG_HOME", "Folder that contains gpurun/config.yaml (default: ~/.config)."},
	{"CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER", "Set for each job: its GPUs, in PCI order."},
	{"GPURUN_JOB, GPURUN_UNI_ID, GPURUN_ATTEMPT, GPURUN_PARAM_*", "Set for each job: its name, the ID and number of the attempt, and the job's parameters."},
	{"GPURUN_RESULT", "Set for each job: a file for its metrics, as JSON."},
}

var fileRows = []row{
	{".gpurun/FILE/", "State of a job file, next to it."},
	{".gpurun/FILE/ledger.jsonl", "Ledger: starts and ends of jobs, as JSON lines."},
	{".gpurun/FILE/logs/", "Output of jobs without a log key."},
	{".gpurun/FILE/run.log, run.out, summary.txt", "Log of gpurun itself, output of run -d, and summary of the last run."},
	{"~/.config/gpurun/config.yaml", "Your own settings; job files and flags override them."},
	{"/etc/gpurun/host.yaml", "Rules of the host's owner, for all users."},
	{"/var/tmp/gpurun-UID/", "The GPUs that a user's runs hold or are waiting for; readable by everyone."},
}

// manual returns the page in roff.
func manual(app *kong.Application) []byte {
	m := &page{}
	m.line(".TH GPURUN 1 \"\" %s \"User Commands\"", roffQuote("gpurun "+programVersion()))
	m.section("NAME")
	m.text("gpurun - runs batches of jobs on the GPUs of a shared machine")
	m.section("SYNOPSIS")
	m.text("gpurun [FLAGS] FILE...")
	m.line(".br")
	m.text("gpurun COMMAND [FLAGS] [ARGUMENTS]")
	m.section("DESCRIPTION")
	m.help(app.Help)
	m.section("COMMANDS")
	groups := map[string][]*kong.Flag{}
	for _, cmd := range app.Children {
		if !cmd.Hidden {
			m.command(cmd, groups)
		}
	}
	m.section("FLAGS OF ALL COMMANDS")
	m.flags(app.Flags)
	for _, g := range groupTitles {
		if len(groups[g.Key]) == 0 {
			continue
		}
		m.section(strings.ToUpper(g.Key))
		m.text(g.Title)
		m.flags(groups[g.Key])
	}
	m.section("EXIT STATUS")
	m.rows(exitRows)
	m.section("ENVIRONMENT")
	m.rows(append(flagVariables(app), environRows...))
	m.section("FILES")
	m.rows(fileRows)
	return m.out.Bytes()
}

// flagVariables returns the environment variables that set flags.
func flagVariables(app *kong.Application) []row {
	var list []row
	for _, node := range append([]*kong.Node{app.Node}, app.Children...) {
		for _, f := range node.Flags {
			for _, name := range f.Envs {
				r := row{name, "The same as --" + f.Name + "."}
				if !slices.Contains(list, r) {
					list = append(list, r)
				}
			}
		}
	}
	return list
}

// A page is the manual page being written.
type page struct{ out bytes.Buffer }

func (m *page) line(format string, args ...any) { fmt.Fprintf(&m.out, format+"\n", args...) }

func (m *page) section(title string) { m.line(".SH %s", roffQuote(title)) }

func (m *page) text(s string) { m.line("%s", roff(s)) }

func (m *page) rows(list []row) {
	for _, r := range list {
		m.line(".TP")
		m.line(".B %s", roffQuote(r.term))
		m.text(r.text)
	}
}

// help writes paragraphs of text. Indented ones are examples.
func (m *page) help(text string) {
	for _, par := range strings.Split(strings.TrimSpace(text), "\n\n") {
		code, indented := strings.CutPrefix(par, "    ")
		m.line(".PP")
		if !indented {
			m.text(strings.ReplaceAll(par, "\n", " "))
			continue
		}
		m.line(".RS 4")
		m.line(".nf")
		for l := range strings.SplitSeq(code, "\n") {
			m.text(strings.TrimPrefix(l, "    "))
		}
		m.line(".fi")
		m.line(".RE")
	}
}

// command writes a command. Flags that several commands share are not written; they are added to
// groups.
func (m *page) command(cmd *kong.Node, groups map[string][]*kong.Flag) {
	m.line(".SS %s", roffQuote(cmd.Summary()))
	m.text(cmd.Help)
	if cmd.Detail != "" {
		m.help(cmd.Detail)
	}
	for _, p := range cmd.Positional {
		m.rows([]row{{p.Summary(), p.Help}})
	}
	var own []*kong.Flag
	var also []string
	for _, f := range cmd.Flags {
		if f.Group == nil {
			own = append(own, f)
			continue
		}
		if title := strings.ToUpper(f.Group.Key); !slices.Contains(also, title) {
			also = append(also, title)
		}
		if !slices.ContainsFunc(groups[f.Group.Key], func(g *kong.Flag) bool { return g.Name == f.Name }) {
			groups[f.Group.Key] = append(groups[f.Group.Key], f)
		}
	}
	m.flags(own)
	if len(also) > 0 {
		m.line(".PP")
		m.text("For more flags, see " + strings.Join(also, " and ") + ".")
	}
}

func (m *page) flags(list []*kong.Flag) {
	for _, f := range list {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if f.Tag.Negatable != "" {
			name = "--[no-]" + f.Name
		}
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		m.rows([]row{{name, f.Help}})
	}
}

// roffQuote quotes s as a single argument of a macro.
func roffQuote(s string) string { return `"` + strings.ReplaceAll(roff(s), `"`, `\(dq`) + `"` }

// roff escapes s as plain text, with hyphens that can be pasted into a shell.
func roff(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\\':
			b.WriteString(`\e`)
		case c == '-':
			b.WriteString(`\-`)
		case c > '~':
			fmt.Fprintf(&b, `\[u%04X]`, c)
		default:
			b.WriteRune(c)
		}
	}
	if s := b.String(); strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return b.String()
}
