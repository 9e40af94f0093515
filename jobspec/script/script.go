// Package script finds mistakes in shell commands before they cost GPU hours:
// GPUs chosen by hand, work that outlives its job unseen, fixed ports. It parses
// commands and never runs them, reads no file and no environment.
//
// A command is a template: where gpurun puts a value in stands a hole, one rune
// that the shell takes for a letter. So all expansions of a matrix are judged by
// one look at their template.
//
// Two rules hold throughout. A finding is an error only when it is certain;
// anything that depends on what the command meets when it runs is a warning, or
// nothing. And no input makes this package panic or hang.
package script

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The lints of this package, by the names that switch them off.
const (
	Pinned     = "pinned"
	Background = "background"
	Detached   = "detached"
	FixedPort  = "fixed-port"
	Unquoted   = "unquoted"
	Conda      = "conda"
)

// A Hole is a place where a value is put in before the shell sees the command.
type Hole struct {
	Spelt   string   // as the job file has it: {seed}
	Values  []string // the values it takes; nil when only the start of the job tells
	Granted bool     // the host's numbers of the job's GPUs
	Quoted  bool     // put in so that the shell leaves it alone
}

// firstHole is the rune that stands for the first hole; the others follow. It is
// from Unicode's private use area, which no command holds otherwise.
const (
	firstHole = '\uE000'
	maxHoles  = 6000
)

// HoleRune is the rune that stands for hole i.
func HoleRune(i int) rune { return firstHole + rune(i) }

// A Job is what a command is judged by.
type Job struct {
	Holes []Hole
	Env   map[string]string // of the job file; values may have holes
	GPUs  int               // the most that the job can be granted; -1 if unknown
	Conda string            // line that makes conda activate work; "" where it works already
}

// A Finding is one thing wrong with a command.
type Finding struct {
	Lint string // its name
	Warn bool   // it may be meant, or cannot be told for certain
	At   string // the text it is about, as the job file spells it
	Line int    // of the command, 1-based
	Text string
	Hint string
}

// A Report is what one command is like.
type Report struct {
	Findings []Finding
	Scripts  []string // files that it runs, as it names them, relative to its work dir
}

// maxScript is the most that is parsed. No command line that Linux can pass on is
// larger than 128 KiB.
const maxScript = 128 << 10

// signs are in every command that there is something to say about, a value that
// the shell would take apart aside.
var signs = []string{"VISIBLE_DEVICES", "cuda:", "-gpu", "deepspeed", "docker", "podman", "tmux", "screen", "sbatch", "qsub", "conda", "mamba",
	"_port", "-port", "_PORT", "rdzv", "set_device"}

// Worth reports whether a command or program may be worth a Check. It is much
// cheaper than one.
func Worth(text string) bool {
	return inBackground(text) || slices.ContainsFunc(signs, func(s string) bool { return strings.Contains(text, s) })
}

// inBackground reports whether there is an & that is not of &&, 2>&1 or &>.
func inBackground(text string) bool {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '&')
		if i < 0 {
			return false
		}
		i += from
		alone := i == 0 || strings.IndexByte("&<>", text[i-1]) < 0
		if alone && (i+1 == len(text) || strings.IndexByte("&>", text[i+1]) < 0) {
			return true
		}
		from = i + 1
	}
}

// Check judges a command. What is no shell script is not judged.
func Check(text string, job Job) Report { return check(text, job, 0) }

func check(text string, job Job, depth int) (r Report) {
	if len(text) > maxScript || len(job.Holes) > maxHoles || tooDeep(text) {
		return Report{}
	}
	defer func() { // a mistake of the parser's must not keep a batch from running
		if recover() != nil {
			r = Report{}
		}
	}()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return Report{}
	}
	l := &linter{job: job, src: text, file: file, depth: depth, vars: map[string][]source{}, funcs: map[string]*syntax.Stmt{}}
	l.survey()
	l.stmts(file.Stmts, false)
	if depth == 0 {
		l.background()
	}
	return l.report
}

// tooDeep reports whether brackets are nested deeper than anybody writes them: the
// parser calls itself for each, and looks twice at some.
func tooDeep(text string) bool {
	depth, ticks := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			if depth++; depth > 60 {
				return true
			}
		case ')', '}', ']':
			depth = max(0, depth-1)
		case '`':
			ticks++
		}
	}
	return ticks > 400
}

// A linter is one Check.
type linter struct {
	job    Job
	src    string
	file   *syntax.File
	depth  int // of bash -c in bash -c
	report Report

	vars     map[string][]source     // what each shell variable is set from
	funcs    map[string]*syntax.Stmt // bodies of the functions it declares
	commands map[string]bool         // "docker wait", "wait", …: the first words of its commands
	granted  bool                    // it reads $CUDA_VISIBLE_DEVICES somewhere
	busy     map[string]bool         // variables being followed, against circles
	steps    int                     // how many have been followed
	dir      string                  // where cd has led
	lost     bool                    // cd has led somewhere that cannot be told
	hooked   bool                    // conda has been made known
}

func (l *linter) find(lint string, warn bool, n syntax.Node, text, hint string) {
	l.report.Findings = append(l.report.Findings, Finding{
		Lint: lint, Warn: warn, At: l.spelt(n), Line: int(n.Pos().Line()), Text: text, Hint: hint,
	})
}

// spelt is a node as the job file has it.
func (l *linter) spelt(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(l.src) {
		return ""
	}
	return l.unhole(strings.TrimRight(l.src[from:to], "\n"))
}

// unhole spells holes as the job file does.
func (l *linter) unhole(s string) string {
	if !strings.ContainsFunc(s, l.isHole) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if h := l.hole(r); h != nil {
			b.WriteString(h.Spelt)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (l *linter) isHole(r rune) bool { return l.hole(r) != nil }

func (l *linter) hole(r rune) *Hole {
	if i := int(r - firstHole); r >= firstHole && i < len(l.job.Holes) {
		return &l.job.Holes[i]
	}
	return nil
}
