package lint

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"gpurun/jobspec/source"
)

// Commands are checked as templates. A placeholder, which is a rune that the shell treats as a
// letter, stands for each value that gpurun fills in. So one check covers all expansions of a
// matrix. Commands are parsed but never run. Checks read no files and no environment, and no input
// makes them panic or hang. A finding is an error only if it is certain. If it depends on what
// happens at run time, it is a warning or is not reported.

// A placeholder stands for a value that is filled in before the shell sees the command.
type placeholder struct {
	Spelt   string   // as in the job file: {seed}
	Values  []string // possible values; nil if known only when the job starts
	Granted bool     // the value is the job's GPUs, by the host's numbers
	Quoted  bool     // quoted for the shell
	Twice   string   // a value that is quoted twice if {x:q} is itself in quotes; "" for none
}

// firstPlaceholder is the rune for the first placeholder; the others follow. It is in Unicode's
// private use area, which commands do not otherwise use.
const (
	firstPlaceholder = '\uE000'
	maxPlaceholders  = 6000
)

func placeholderRune(i int) rune { return firstPlaceholder + rune(i) }

// A scriptJob is the context in which a command is checked.
type scriptJob struct {
	Placeholders []placeholder
	Env          map[string]string // from the job file; values may contain placeholders
	GPUs         int               // the most GPUs the job can be granted; -1 if unknown
	Conda        string            // the line that makes conda activate work; "" if it already works
}

// A finding is one problem in a command. Its line number is relative to the command, from 1.
type finding struct {
	source.Problem
	Warn bool   // it may be intended, or is not certain
	At   string // the text concerned, as spelled in the job file
}

// A scriptReport is the result of checking one command.
type scriptReport struct {
	Findings []finding
	Scripts  []string // files it runs, as written, relative to its work dir
}

// maxScript bounds the size of parsed text. Linux cannot pass a command line longer than 128 KiB.
const maxScript = 128 << 10

// signs are substrings: every command with a finding contains at least one of them. The exceptions
// are findings about background work and about values that the shell would split.
var signs = []string{"VISIBLE_DEVICES", "cuda:", "-gpu", "deepspeed", "docker", "podman", "nerdctl", "tmux", "screen", "sbatch", "qsub", "tsp", "gbatch", "conda", "mamba",
	"_port", "-port", "_PORT", "rdzv", "set_device"}

// background matches an & that is not part of &&, 2>&1 or &>.
var background = regexp.MustCompile(`(?:^|[^&<>])&(?:[^&>]|$)`)

// worthChecking reports whether a command or program may have findings. It is much cheaper than
// checking.
func worthChecking(text string) bool {
	return strings.Contains(text, "&") && background.MatchString(text) || slices.ContainsFunc(signs, func(s string) bool { return strings.Contains(text, s) })
}

// checkScript checks a command. Text that is not a shell script has no findings.
func checkScript(text string, job scriptJob) scriptReport { return checkNested(text, job, 0) }

func checkNested(text string, job scriptJob, depth int) (r scriptReport) {
	if tooLarge(text) || len(job.Placeholders) > maxPlaceholders {
		return scriptReport{}
	}
	defer func() { // a bug in the parser must not prevent a run
		if recover() != nil {
			r = scriptReport{}
		}
	}()
	file, err := parse(text)
	if err != nil {
		return scriptReport{}
	}
	l := &linter{
		job: job, src: text, file: file, depth: depth,
		vars: map[string][]origin{}, busy: map[string]bool{}, funcs: map[string]*syntax.Stmt{}, commands: map[string]bool{},
	}
	l.survey()
	l.each(l.check)
	if depth == 0 {
		l.background()
	}
	return l.report
}

func parse(text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
}

// tooLarge reports whether text is longer than any command, or its brackets are nested deeper than
// in any real script. The parser recurses at each bracket, and parses the text in some of them twice.
func tooLarge(text string) bool {
	if len(text) > maxScript {
		return true
	}
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

// A linter is the state of one check.
type linter struct {
	job    scriptJob
	src    string
	file   *syntax.File
	depth  int // nesting depth of bash -c
	report scriptReport

	vars     map[string][]origin     // sources of each shell variable's value
	funcs    map[string]*syntax.Stmt // bodies of the functions that the script declares
	commands map[string]bool         // the first one and two words of its commands: "docker", "docker wait"
	granted  bool                    // the script reads $CUDA_VISIBLE_DEVICES
	busy     map[string]bool         // variables being followed, to detect cycles
	steps    int                     // number of variables followed
	dir      string                  // the folder after cd
	lost     bool                    // cd changed to an unknown folder
	hooked   bool                    // conda's function is defined
}

func (l *linter) find(lint string, warn bool, n syntax.Node, text, hint string) {
	l.findAt(l.spelt(n), int(n.Pos().Line()), lint, warn, text, hint)
}

func (l *linter) findAt(at string, line int, lint string, warn bool, text, hint string) {
	p := source.Problem{Lint: lint, Line: line, Text: text, Hint: hint}
	l.report.Findings = append(l.report.Findings, finding{p, warn, at})
}

// spelt returns a node as spelled in the job file.
func (l *linter) spelt(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(l.src) {
		return ""
	}
	return l.spellOut(strings.TrimRight(l.src[from:to], "\n"))
}

// short returns a node as spelled, shortened to one line.
func (l *linter) short(n syntax.Node) string { return source.Clip(l.spelt(n)) }

// spellOut spells placeholders as in the job file.
func (l *linter) spellOut(s string) string {
	var b strings.Builder
	for _, r := range s {
		if h := l.placeholder(r); h != nil {
			b.WriteString(h.Spelt)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (l *linter) isPlaceholder(r rune) bool { return l.placeholder(r) != nil }

func (l *linter) placeholder(r rune) *placeholder {
	if i := int(r - firstPlaceholder); r >= firstPlaceholder && i < len(l.job.Placeholders) {
		return &l.job.Placeholders[i]
	}
	return nil
}
