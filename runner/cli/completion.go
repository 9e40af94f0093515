package cli

import (
	"fmt"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
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

// Run prints the script.
func (c *completionCmd) Run(a *app, ctx *kong.Context) error {
	script := map[string]func(completions) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(a.out, script(grammarOf(ctx.Model)))
	return err
}

// completions lists all commands, in the order of the help.
type completions []completion

// A completion is one command with its flags.
type completion struct {
	name, help string
	flags      []completionFlag
	jobs       bool // takes job names
}

type completionFlag struct {
	name, help string // the name with its dashes
	value      bool   // takes a value
}

// grammarOf reads the completions from the grammar, so that no flag is forgotten.
func grammarOf(app *kong.Application) completions {
	var out completions
	for _, node := range app.Children {
		if node.Hidden {
			continue
		}
		c := completion{name: node.Name, help: node.Help}
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				c.flags = append(c.flags, completionFlag{"--" + f.Name, f.Help, !f.IsBool()})
				if f.Short != 0 {
					c.flags = append(c.flags, completionFlag{"-" + string(f.Short), f.Help, !f.IsBool()})
				}
			}
		}
		slices.SortFunc(c.flags, func(a, b completionFlag) int { return strings.Compare(a.name, b.name) })
		for _, p := range node.Positional {
			c.jobs = c.jobs || p.Name == "job"
		}
		out = append(out, c)
	}
	return out
}

func (cs completions) names() []string {
	var names []string
	for _, c := range cs {
		names = append(names, c.name)
	}
	return names
}

// valued returns the flags, of any command, that a value follows, except --file.
func (cs completions) valued() []string {
	var names []string
	for _, c := range cs {
		for _, f := range c.flags {
			if f.value && f.name != "--file" && f.name != "--force" { // --force may lack its value
				names = append(names, f.name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pattern returns the command's name as a case pattern; no command means run.
func (c completion) pattern() string {
	if c.name == "run" {
		return "run | ''"
	}
	return c.name
}

// bashScript takes the word from the line itself: readline splits it at = and :, which
// job names may contain, and replaces only the last part.
func bashScript(cs completions) string {
	var b strings.Builder
	fmt.Fprintf(&b, `_gpurun() {
    local cur=${COMP_WORDS[COMP_CWORD]} word=${COMP_LINE:0:COMP_POINT} cmd= file= flags= byname= i
    word=${word##*[[:space:]]}
    [[ $word == *"$cur" && $cur != [=:@] ]] || cur=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --file)
            ((i++))
            [[ ${COMP_WORDS[i]} == = ]] && ((i++))
            file=${COMP_WORDS[i]} ;;
        %s)
            ((i++))
            [[ ${COMP_WORDS[i]} == = ]] && ((i++)) ;;
        -*) ;;
        *) [[ -z $cmd ]] && cmd=${COMP_WORDS[i]} ;;
        esac
    done
    case $cmd in
`, strings.Join(cs.valued(), " | "))
	for _, c := range cs {
		var flags []string
		for _, f := range c.flags {
			flags = append(flags, f.name)
		}
		fmt.Fprintf(&b, "    %s) flags='%s'%s ;;\n", c.pattern(), strings.Join(flags, " "), map[bool]string{true: " byname=1"}[c.jobs])
	}
	fmt.Fprintf(&b, `    esac
    COMPREPLY=()
    if [[ $word == -* && $word != *=* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    elif [[ -n $byname && $word != -* && ${COMP_WORDS[COMP_CWORD-1]} != --file ]]; then
        COMPREPLY=($(gpurun __names ${file:+--file="$file"} -- "$word" 2>/dev/null))
        COMPREPLY=("${COMPREPLY[@]#"${word%%"$cur"}"}")
    else
        [[ -z $cmd && $word != -* ]] && COMPREPLY=($(compgen -W '%s' -- "$cur"))
        compopt -o filenames 2>/dev/null
        local IFS=$'\n'
        COMPREPLY+=($(compgen -f -- "$cur"))
    fi
}
complete -F _gpurun gpurun
`, strings.Join(cs.names(), " "))
	return b.String()
}

func zshScript(cs completions) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#compdef gpurun

_gpurun() {
    local cmd file byname
    local -a commands flags names
    integer i
    for ((i = 2; i < CURRENT; i++)); do
        case $words[i] in
        (--file) file=$words[++i] ;;
        (--file=*) file=${words[i]#--file=} ;;
        (%s) ((i++)) ;;
        (-*) ;;
        (*) [[ -z $cmd ]] && cmd=$words[i] ;;
        esac
    done
    commands=(
`, strings.Join(cs.valued(), " | "))
	for _, c := range cs {
		fmt.Fprintf(&b, "        %s\n", described(c.name, c.help))
	}
	b.WriteString("    )\n    case $cmd in\n")
	for _, c := range cs {
		fmt.Fprintf(&b, "    (%s)%s flags=(\n", c.pattern(), map[bool]string{true: " byname=1"}[c.jobs])
		for _, f := range c.flags {
			fmt.Fprintf(&b, "        %s\n", described(f.name, f.help))
		}
		b.WriteString("    ) ;;\n")
	}
	b.WriteString(`    esac
    if [[ $PREFIX == -*=* ]]; then
        compset -P '*='
        _files
    elif [[ $PREFIX == -* ]]; then
        _describe -o option flags
    elif [[ -n $byname && $words[CURRENT-1] != --file ]]; then
        names=(${(f)"$(gpurun __names ${file:+--file=$file} -- $PREFIX 2>/dev/null)"})
        compadd -a names
    else
        [[ -z $cmd ]] && _describe command commands
        _files
    fi
}

# Autoloaded from an fpath folder, this file is the body of the function.
if [[ $funcstack[1] == _gpurun ]]; then
    _gpurun "$@"
else
    compdef _gpurun gpurun
fi
`)
	return b.String()
}

// described returns a word and its description, as _describe expects them.
func described(word, help string) string { return shellescape.Quote(word + ":" + help) }

func fishScript(cs completions) string {
	var b strings.Builder
	fmt.Fprintf(&b, `function __gpurun_no_command
    not __fish_seen_subcommand_from %s
end
function __gpurun_names
    set -l file
    set -l words (commandline -opc)
    for i in (seq (count $words))
        switch $words[$i]
            case --file
                set file --file=$words[(math $i + 1)]
            case '--file=*'
                set file $words[$i]
        end
    end
    gpurun __names $file -- (commandline -ct) 2>/dev/null
end
`, strings.Join(cs.names(), " "))
	for _, c := range cs {
		fmt.Fprintf(&b, "complete -c gpurun -n __gpurun_no_command -a %s -d %s\n", c.name, fishQuote(c.help))
		when := "__fish_seen_subcommand_from " + c.name
		if c.jobs {
			fmt.Fprintf(&b, "complete -c gpurun -n '%s' -f -a '(__gpurun_names)'\n", when)
		}
		if c.name == "run" {
			when = "__gpurun_no_command; or " + when
		}
		for _, f := range c.flags {
			option := "-s " + strings.TrimPrefix(f.name, "-")
			if long, ok := strings.CutPrefix(f.name, "--"); ok {
				option = "-l " + long
			}
			if f.value && f.name != "--force" {
				option += " -r -F"
			}
			fmt.Fprintf(&b, "complete -c gpurun -n '%s' %s -d %s\n", when, option, fishQuote(f.help))
		}
	}
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// maxNames bounds how many job names a shell is offered.
const maxNames = 1000

// namesCmd gives job names to the scripts.
type namesCmd struct {
	batchFlag `embed:""`
	Prefix    string `arg:"" optional:""`
}

// Run prints the batch's job names that have the prefix.
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
