package cli

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gpurun/jobspec/settings"
	"gpurun/runner"
	"gpurun/runner/batches"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return helpText("",
		"gpurun completion bash > ~/.local/share/bash-completion/completions/gpurun",
		"gpurun completion zsh > ~/.zfunc/_gpurun       (fpath=(~/.zfunc $fpath) before compinit)",
		"gpurun completion fish > ~/.config/fish/completions/gpurun.fish")
}

// scripts holds the completion scripts, which call gpurun __complete.
//
//go:embed completion
var scripts embed.FS

func (c *completionCmd) Run(a *app) error {
	script, err := scripts.ReadFile("completion/gpurun." + c.Shell)
	if err != nil {
		return err
	}
	_, err = a.out.Write(script)
	return err
}

// completeCmd prints the possible completions of the last word, one per line, with a description
// after a tab. It exits with 0 if the word may also be a file.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words up to the cursor, without gpurun itself."`
}

func (c *completeCmd) Run(a *app, ctx *kong.Context) error {
	if len(c.Words) == 0 {
		return nil
	}
	before, word := c.Words[:len(c.Words)-1], c.Words[len(c.Words)-1]
	if len(before) > 0 && before[0] == "help" {
		before = before[1:]
	}
	typed, err := kong.Trace(ctx.Kong, before)
	if err != nil {
		return err
	}
	valued, err := kong.Trace(ctx.Kong, append(slices.Clone(before), "0"))
	if err != nil {
		return err
	}
	cmd, named, file := ctx.Model.DefaultCmd, false, "" // run is the default command
	for _, p := range typed.Path {
		switch {
		case p.Command != nil:
			cmd = p.Command
			named = slices.Contains(before, cmd.Name)
		case p.Positional != nil:
			named = true
			if files, is := typed.Value(p).Interface().([]string); is && p.Positional.Name == "file" && len(files) > 0 {
				file = files[0]
			}
		case p.Flag != nil && p.Flag.Name == "file":
			file = fmt.Sprint(typed.Value(p))
		}
	}
	offer := func(name, help string) bool {
		fits := strings.HasPrefix(name, word)
		if fits {
			fmt.Fprintf(a.out, "%s\t%s\n", name, help)
		}
		return fits
	}
	flag, _, valuing := strings.Cut(word, "=")
	switch {
	case typed.Error != nil && valued.Error == nil:
		return a.offerValues(cmd, before[len(before)-1], "", file, offer)
	case strings.HasPrefix(word, "-") && valuing:
		return a.offerValues(cmd, flag, flag+"=", file, offer)
	case strings.HasPrefix(word, "-"):
		for _, f := range slices.Concat(cmd.AllFlags(true)...) {
			offer("--"+f.Name, f.Help)
			if f.Short != 0 {
				offer("-"+string(f.Short), f.Help)
			}
		}
		return batches.Exit(batches.ExitFailed)
	case cmd.Name == "set":
		keys := settings.Live()
		if slices.Contains(before, "--job") {
			keys = runner.JobKeys
		}
		for _, key := range keys {
			offer(key+"=", "")
		}
		return batches.Exit(batches.ExitFailed)
	case slices.ContainsFunc(cmd.Positional, func(p *kong.Positional) bool { return p.Name == "job" }):
		a.offerJobs(file, "", offer)
		return batches.Exit(batches.ExitFailed)
	case len(cmd.Positional) > 0 && cmd.Positional[0].Enum != "":
		for _, v := range cmd.Positional[0].EnumSlice() {
			offer(v, "")
		}
		return batches.Exit(batches.ExitFailed)
	case !named:
		offer("help", "Show what a command does, and its flags.")
		for _, cmd := range ctx.Model.Children {
			if !cmd.Hidden {
				offer(cmd.Name, cmd.Help)
			}
		}
	}
	return nil
}

// offerValues offers the values of a flag, each after prefix ("--FLAG=" or ""). For a flag that
// takes a glob, it offers the names of the jobs in file. Any other flag without fixed values may
// take the name of a file.
func (a *app) offerValues(cmd *kong.Node, flag, prefix, file string, offer func(name, help string) bool) error {
	var values []string
	for _, f := range slices.Concat(cmd.AllFlags(true)...) {
		switch i := slices.IndexFunc(settings.Table, func(d settings.Def) bool { return d.Name == strings.ReplaceAll(f.Name, "-", "_") }); {
		case "--"+f.Name != flag:
		case strings.Trim(f.PlaceHolder, "[]") == "GLOB":
			a.offerJobs(file, prefix, offer)
			return batches.Exit(batches.ExitFailed)
		case f.Enum != "":
			values = f.EnumSlice()
		case i >= 0:
			values = settings.Table[i].Values
		}
	}
	for _, v := range values {
		offer(prefix+v, "")
	}
	return batches.Exit(map[bool]int{true: batches.ExitDone, false: batches.ExitFailed}[values == nil])
}

// maxNames is the maximum number of job names that completion offers.
const maxNames = 1000

// offerJobs offers the names of a batch's jobs, each after prefix.
func (a *app) offerJobs(file, prefix string, offer func(name, help string) bool) {
	refs, err := a.Find(file, "")
	if err != nil || refs[0].Read() != nil || refs[0].Batch == nil {
		return // there is nothing to offer
	}
	batch := refs[0].Batch
	n := 0
	for id := range batch.Jobs {
		if n < maxNames && offer(prefix+batch.Jobs[id].Name, "") {
			n++
		}
	}
}
