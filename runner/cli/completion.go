package cli

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/alecthomas/kong"

	"gpurun/jobspec"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help shows how the command is used.
func (completionCmd) Help() string {
	return `Examples:

    gpurun completion bash > ~/.local/share/bash-completion/completions/gpurun
    gpurun completion zsh > ~/.zfunc/_gpurun       with ~/.zfunc in fpath
    gpurun completion fish > ~/.config/fish/completions/gpurun.fish`
}

// Run prints the script.
func (c *completionCmd) Run(a *app, ctx *kong.Context) error {
	words := completions(ctx.Model)
	switch c.Shell {
	case "zsh":
		// zsh runs bash's completion functions.
		io.WriteString(a.out, "#compdef gpurun\nautoload -U +X bashcompinit && bashcompinit\n")
		bashScript(a.out, words)
	case "bash":
		bashScript(a.out, words)
	case "fish":
		fishScript(a.out, words)
	}
	return nil
}

// A completion is one command with its flags.
type completion struct {
	name, help string
	flags      []string // with their dashes
	files      bool     // takes job files
	jobs       bool     // takes names of jobs
}

// completions read the grammar, so that no flag is forgotten.
func completions(app *kong.Application) []completion {
	var out []completion
	for _, node := range app.Children {
		if node.Hidden {
			continue
		}
		c := completion{name: node.Name, help: node.Help}
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				c.flags = append(c.flags, "--"+f.Name)
				if f.Short != 0 {
					c.flags = append(c.flags, "-"+string(f.Short))
				}
			}
		}
		sort.Strings(c.flags)
		for _, p := range node.Positional {
			c.files = c.files || p.Name == "file" || p.Name == "cmd"
			c.jobs = c.jobs || p.Name == "job"
		}
		out = append(out, c)
	}
	return out
}

func bashScript(w io.Writer, cs []completion) {
	var names []string
	fmt.Fprint(w, `_gpurun() {
    local cur=${COMP_WORDS[COMP_CWORD]} cmd= i flags= jobs= file=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --file) file=${COMP_WORDS[i + 1]}
            [[ $file == = ]] && file=${COMP_WORDS[i + 2]} ;;
        -*) ;;
        *) [[ -z $cmd ]] && cmd=${COMP_WORDS[i]} ;;
        esac
    done
    case $cmd in
`)
	for _, c := range cs {
		names = append(names, c.name)
		jobs := ""
		if c.jobs {
			jobs = " jobs=1"
		}
		fmt.Fprintf(w, "    %s) flags='%s'%s ;;\n", c.name, strings.Join(c.flags, " "), jobs)
		if c.name == "run" {
			fmt.Fprintf(w, "    '') flags='%s' ;;\n", strings.Join(c.flags, " "))
		}
	}
	fmt.Fprintf(w, `    esac
    COMPREPLY=()
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
        return
    fi
    local before="${COMP_WORDS[*]:COMP_CWORD-1:1}"
    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}
    if [[ -n $jobs && $before != --file && $cur != = ]]; then
        COMPREPLY=($(gpurun __names ${file:+--file "$file"} -- "$cur" 2>/dev/null))
        return
    fi
    [[ -z $cmd ]] && COMPREPLY=($(compgen -W '%s' -- "$cur"))
    COMPREPLY+=($(compgen -f -- "$cur"))
}
complete -o filenames -F _gpurun gpurun
`, strings.Join(names, " "))
}

func fishScript(w io.Writer, cs []completion) {
	for _, c := range cs {
		fmt.Fprintf(w, "complete -c gpurun -n __fish_use_subcommand -a %s -d '%s'\n", c.name, strings.ReplaceAll(c.help, "'", "\\'"))
		if c.jobs {
			fmt.Fprintf(w, "complete -c gpurun -n '__fish_seen_subcommand_from %s' -f -a '(gpurun __names -- (commandline -ct) 2>/dev/null)'\n", c.name)
		}
		for _, f := range c.flags {
			when := "__fish_seen_subcommand_from " + c.name
			if c.name == "run" {
				when = "not __fish_seen_subcommand_from " + others(cs, "run")
			}
			if long, ok := strings.CutPrefix(f, "--"); ok {
				fmt.Fprintf(w, "complete -c gpurun -n '%s' -l %s\n", when, long)
			} else {
				fmt.Fprintf(w, "complete -c gpurun -n '%s' -s %s\n", when, f[1:])
			}
		}
	}
}

func others(cs []completion, but string) string {
	var names []string
	for _, c := range cs {
		if c.name != but {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, " ")
}

// maxNames bounds how many names of jobs a shell is offered.
const maxNames = 1000

// namesCmd is what the scripts ask for names of jobs.
type namesCmd struct {
	batchFlag `embed:""`
	Prefix    string `arg:"" optional:""`
}

// Run prints the names of the batch that begin so; nothing where there is none.
func (c *namesCmd) Run(a *app) error {
	refs, err := a.find(c.File, toShow)
	if err != nil {
		return err
	}
	batch, ps := jobspec.Load(refs[0].files(), a.options(&batchFlags{}))
	if len(ps) > 0 {
		return problems(ps)
	}
	n := 0
	for id := range batch.Jobs {
		if name := batch.Jobs[id].Name; strings.HasPrefix(name, c.Prefix) && n < maxNames {
			fmt.Fprintln(a.out, name)
			n++
		}
	}
	return nil
}
