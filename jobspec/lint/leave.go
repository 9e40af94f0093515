package lint

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file finds work that continues after the command that started it has ended.

// trivialCommands do no work, nor do they wait for a command in the background.
var trivialCommands = []string{"echo", "printf", "true", ":", "date", "disown", "exit", "return", "sleep", "cd", "set", "unset", "export", "shift", "let"}

// background reports a script that ends with work in the background without waiting for it.
func (l *linter) background() {
	waits := slices.ContainsFunc([]string{"wait", "fg", "kill -0", "jobs", "tail", "pgrep", "pwait"}, func(c string) bool { return l.commands[c] })
	if waits || l.commands["trap"] && strings.Contains(l.src, "wait") {
		return
	}
	if s := l.lastInBackground(l.file.Stmts, 0); s != nil {
		l.find(Background, false, s, l.short(s)+" runs in the background, so the command ends immediately",
			"remove nohup and &, end the script with wait, or set leftovers: wait")
	}
}

// lastInBackground returns the command that ends a list, if it runs in the background.
func (l *linter) lastInBackground(list []*syntax.Stmt, depth int) *syntax.Stmt {
	for _, s := range slices.Backward(list) {
		if s.Background || s.Disown {
			return s
		}
		if isTrivial(s) || depth > 50 {
			continue
		}
		for _, end := range l.ends(s.Cmd) {
			if found := l.lastInBackground(end, depth+1); found != nil {
				return found
			}
		}
		return nil
	}
	return nil
}

func isTrivial(s *syntax.Stmt) bool {
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Args) == 0 || slices.Contains(trivialCommands, c.Args[0].Lit())
	case *syntax.DeclClause, *syntax.FuncDecl, *syntax.ArithmCmd, *syntax.LetClause, *syntax.TestClause:
		return true
	}
	return false
}

// ends returns the lists of commands inside c that may run last.
func (l *linter) ends(c syntax.Command) (lists [][]*syntax.Stmt) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		if body := l.funcs[c.Args[0].Lit()]; body != nil {
			lists = [][]*syntax.Stmt{{body}}
		}
	case *syntax.Block:
		lists = [][]*syntax.Stmt{c.Stmts}
	case *syntax.Subshell:
		lists = [][]*syntax.Stmt{c.Stmts}
	case *syntax.BinaryCmd:
		lists = [][]*syntax.Stmt{{c.Y}}
	case *syntax.WhileClause:
		lists = [][]*syntax.Stmt{c.Do}
	case *syntax.ForClause:
		lists = [][]*syntax.Stmt{c.Do}
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			lists = append(lists, c.Then)
		}
	case *syntax.CaseClause:
		for _, item := range c.Items {
			lists = append(lists, item.Stmts)
		}
	case *syntax.TimeClause:
		if c.Stmt != nil {
			lists = [][]*syntax.Stmt{{c.Stmt}}
		}
	case *syntax.CoprocClause:
		lists = [][]*syntax.Stmt{{c.Stmt}}
	}
	return lists
}

// detachedWork reports work that leaves the job, unless another command in the script waits for it.
// If the script does work of its own afterwards, the detached work may be a service for it (a
// database, a container for docker exec), so detachedWork only warns.
func (l *linter) detachedWork(c *syntax.CallExpr, maybe bool, hint string, waits ...string) {
	if slices.ContainsFunc(waits, func(w string) bool { return l.commands[w] }) {
		return
	}
	l.find(Detached, maybe || l.worksAfter(c), c, l.short(c)+" moves the work out of the job, so the job ends immediately and its GPUs go to the next job", hint)
}

// monitoringCommands watch work outside the job, and do none of their own.
var monitoringCommands = []string{"nvidia-smi", "squeue", "qstat", "ps"}

// worksAfter reports whether c is followed by a command that does work.
func (l *linter) worksAfter(c *syntax.CallExpr) (works bool) {
	syntax.Walk(l.file, func(n syntax.Node) bool {
		if n, ok := n.(*syntax.CallExpr); ok && n.Pos().After(c.End()) {
			works = works || l.works(n)
		}
		return !works
	})
	return works
}

func (l *linter) works(c *syntax.CallExpr) bool {
	words := l.unwrap(c.Args)
	if len(words) == 0 {
		return false
	}
	name := path.Base(words[0].prefix)
	if slices.Contains(containerTools, name) {
		return len(words) > 1 && slices.Contains([]string{"exec", "stop", "kill", "rm"}, words[1].prefix)
	}
	_, leaves := leaving[name]
	return !leaves && !slices.Contains(slices.Concat(trivialCommands, quietCommands, monitoringCommands), name)
}

// leaving describes programs that can move work out of the job: is reports whether their arguments
// do so, hint suggests an alternative, and waits lists commands that wait for the work.
var leaving = map[string]struct {
	is    func(words []string) bool
	hint  string
	waits []string
}{
	"tmux": {func(words []string) bool {
		for len(words) > 1 && strings.HasPrefix(words[0], "-") { // -L socket
			words = words[2:]
		}
		return len(words) > 0 && (words[0] == "new" || words[0] == "new-session") && hasFlag(words[1:], 'd', "cefFnstxy")
	}, "run the command directly: gpurun keeps its log, and jobs keep running after you log out", []string{"tmux wait", "tmux wait-for", "tmux has-session", "tmux has", "tmux attach"}},
	"screen": {func(words []string) bool {
		return hasFlag(words, 'd', "cehpsStT") && hasFlag(words, 'm', "cehpsStT")
	}, "run the command directly (gpurun keeps its log, and jobs keep running after you log out), or use screen -D -m", []string{"screen -r", "screen -ls", "screen -list"}},
	"sbatch": {func(words []string) bool {
		return !slices.Contains(words, "--wait") && !slices.Contains(words, "-W")
	}, "run the command directly, or use sbatch --wait", []string{"squeue", "sacct"}},
	"qsub": {func(words []string) bool {
		return !slices.Contains(words, "-sync") && !strings.Contains(strings.Join(words, " "), "block=true")
	}, "run the command directly, or use qsub -sync y", []string{"qstat"}},
	"tsp": {func(words []string) bool {
		queues := func(w string) bool { return w != "" && w[0] != '-' && (w[0] < '0' || w[0] > '9') } // not a task number
		return slices.ContainsFunc(words, queues) && !hasFlag(words, 'f', "DL")
	}, "run the command directly, or use tsp -f", []string{"tsp -w", "tsp -t", "tsp -c"}},
	"gbatch": {func(words []string) bool {
		return len(words) > 0 && words[0] != "new" && words[0] != "completion" && !slices.Contains(words, "--dry-run")
	}, "run the command directly: gpurun queues it until a GPU is free", []string{"gqueue", "gjob attach"}},
}

func (l *linter) detached(name string, c *syntax.CallExpr, args []arg, maybe bool) {
	p, known := leaving[name]
	if !known {
		return
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = a.prefix
	}
	if p.is(words) {
		l.detachedWork(c, maybe, p.hint, p.waits...)
	}
}

// hasFlag reports whether flag is one of a command's short options. Options in valued take a value.
func hasFlag(words []string, flag byte, valued string) bool {
	values, _ := ShortOptions(words, valued)
	return values[flag] != nil
}

// ShortOptions divides the words of a command into its short options, with their values, and the
// rest. The options whose letters are in valued take a value.
func ShortOptions(words []string, valued string) (values map[byte][]string, rest []string) {
	values = map[byte][]string{}
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		w := words[0][1:]
		if words = words[1:]; w == "-" {
			break
		}
		for w != "" {
			letter, v := w[0], ""
			if w = w[1:]; strings.IndexByte(valued, letter) >= 0 {
				if v, w = w, ""; v == "" && len(words) > 0 {
					v, words = words[0], words[1:]
				}
			}
			values[letter] = append(values[letter], v)
		}
	}
	return values, words
}
