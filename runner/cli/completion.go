package cli

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gpurun/jobspec"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help returns the command's description and examples.
func (completionCmd) Help() string {
	return `Examples:

    gpurun completion bash > ~/.local/share/bash-completion/completions/gpurun
    gpurun completion zsh > ~/.zfunc/_gpurun       (fpath=(~/.zfunc $fpath) before compinit)
    gpurun completion fish > ~/.config/fish/completions/gpurun.fish

Or, in .bashrc or below compinit in .zshrc: source <(gpurun completion bash)`
}

// scripts ask gpurun __complete what may come next.
//
//go:embed completion
var scripts embed.FS

// Run prints the script.
func (c *completionCmd) Run(a *app) error {
	script, err := scripts.ReadFile("completion/gpurun." + c.Shell)
	if err != nil {
		return err
	}
	_, err = a.out.Write(script)
	return err
}

// completeCmd prints what the last word may become: a line each, with a description after
// a tab. Its exit status is 0 if that may be a file as well.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words up to the cursor, without gpurun itself."`
}

// Run prints the completions.
func (c *completeCmd) Run(a *app, ctx *kong.Context) error {
	if len(c.Words) == 0 {
		return nil
	}
	word := c.Words[len(c.Words)-1]
	before := readTyped(ctx.Model, c.Words[:len(c.Words)-1])
	offer := func(name, help string) {
		if strings.HasPrefix(name, word) {
			fmt.Fprintf(a.out, "%s\t%s\n", name, help)
		}
	}
	switch {
	case before.value, strings.HasPrefix(word, "-") && strings.Contains(word, "="):
		return nil
	case strings.HasPrefix(word, "-"):
		for _, f := range flags(before.cmd) {
			offer("--"+f.Name, f.Help)
			if f.Short != 0 {
				offer("-"+string(f.Short), f.Help)
			}
		}
		return quiet(exitFailed)
	case slices.ContainsFunc(before.cmd.Positional, func(p *kong.Positional) bool { return p.Name == "job" }):
		a.offerJobs(before.file, word)
		return quiet(exitFailed)
	case !before.named:
		for _, cmd := range ctx.Model.Children {
			if !cmd.Hidden {
				offer(cmd.Name, cmd.Help)
			}
		}
	}
	return nil
}

// typed is what the words before the cursor say.
type typed struct {
	cmd   *kong.Node // no command means run
	named bool       // the command is given
	value bool       // the next word is the value of a flag
	file  string     // --file
}

func readTyped(app *kong.Application, words []string) typed {
	valued := map[string]bool{} // flags of any command that a value follows
	for _, cmd := range app.Children {
		for _, f := range flags(cmd) {
			if f.Name != "force" && !f.IsBool() { // --force may lack its value
				valued["--"+f.Name] = true
				valued["-"+string(f.Short)] = f.Short != 0
			}
		}
	}
	t := typed{cmd: app.DefaultCmd}
	for i := 0; i < len(words); i++ {
		flag, value, given := strings.Cut(words[i], "=")
		if valued[flag] && !given {
			if i++; i == len(words) {
				t.value = true
				break
			}
			value = words[i]
		}
		switch {
		case flag == "--file":
			t.file = value
		case !strings.HasPrefix(flag, "-") && !t.named:
			t.named = true
			if at := slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == flag }); at >= 0 {
				t.cmd = app.Children[at]
			}
		}
	}
	return t
}

// flags returns all flags of a command that its help shows.
func flags(cmd *kong.Node) []*kong.Flag { return slices.Concat(cmd.AllFlags(true)...) }

// maxNames bounds how many job names a shell is offered.
const maxNames = 1000

// offerJobs prints the names of a batch's jobs that have the prefix.
func (a *app) offerJobs(file, prefix string) {
	refs, err := a.find(file, toShow)
	if err != nil {
		return // nothing to offer
	}
	batch, _ := jobspec.Load(refs[0].files(), a.options(&batchFlags{}))
	if batch == nil {
		return
	}
	n := 0
	for id := range batch.Jobs {
		if name := batch.Jobs[id].Name; strings.HasPrefix(name, prefix) && n < maxNames {
			fmt.Fprintln(a.out, name+"\t")
			n++
		}
	}
}
