// Package fold turns a table of commands into entries of a job file: the common parts become texts
// with {variables}, and the differences become a matrix or a zip. Its functions are pure, and the
// entries expand to the original table.
package fold

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec/source"
)

// A Word is a word of a command.
type Word struct {
	Text string
	Raw  bool // in shell syntax, such as an operator, a redirection or "$HOME"/x
}

// Words returns arguments as the words of a command.
func Words(argv []string) (words []Word) {
	for _, a := range argv {
		words = append(words, Word{Text: a})
	}
	return words
}

// A Job is one job before folding.
type Job struct {
	Run                 [][]Word // commands in sequence
	Text                string   // Run as written, which an entry with only this job keeps; "" if unknown
	Dir                 string   // "" or "." for the job file's folder
	Env                 []string // NAME=value; NAME+=value if the inherited value follows it
	Log, Stdout, Stderr string
	Keys                []string // keys shared by the entry's jobs, in YAML: "gpus: 2"
	Queued              bool     // in the launcher's queue, as an entry of its own
}

// An Entry is one entry of a job file.
type Entry struct {
	Name   string
	Glob   string // matches the names of exactly its jobs
	Needs  []string
	Queued bool
	Keys   []string
	Jobs   []int // indices of the jobs that it replaces

	params [][]*column // independent sets of columns
	rows   []*column   // the same columns, with a value for each job
	text   string      // Text of its only job
	run    []string
	env    []string
	keys   [][2]string // work_dir, log, stdout and stderr
}

// A cell is one text of a job. Only jobs whose cells have equal kinds can share an entry.
type cell struct {
	Word
	kind, hint string // a parameter for the cell is named after the hint
}

var (
	scriptName = source.Regexp(`\.(?:py|sh|bash|jl|R|pl|lua|rb|js)$`)
	keyed      = source.Regexp(`^[+~]*[A-Za-z_][\w./@-]*=`)
	option     = source.Regexp(`^-[^0-9.\s][^\s=]*`)
	module     = source.Regexp(`^[A-Za-z_][\w.]*$`)
	unnamable  = source.Regexp(`[^A-Za-z0-9._-]+`)
	// Launchers, and Python modules that act as such, take options before the script that they run.
	launcher = source.Regexp(`^(?:\S*/)?(?:docker|podman|nvidia-docker|singularity|apptainer|conda|mamba|micromamba|torchrun|accelerate|deepspeed|mpirun|mpiexec|horovodrun)$`)
	launches = source.Regexp(`^(?:torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch)$`)
)

// Program returns the words of a command that identify its program: all words up to its script or
// module or, if a launcher runs the script, only the launcher's name and the script's.
func Program(cmd []Word) []Word {
	at, launched := script(cmd)
	if at > 0 && launched {
		return []Word{cmd[0], cmd[at]}
	}
	return cmd[:at+1]
}

// script returns the index of the script or module that a command runs, or 0 if there is none. It also
// reports whether a launcher runs the script.
func script(cmd []Word) (at int, launched bool) {
	launched = launcher().MatchString(cmd[0].Text)
	for i := 1; i < len(cmd) && (i < 4 || launched || strings.HasPrefix(path.Base(cmd[0].Text), "python")); i++ {
		prev, w := cmd[i-1].Text, cmd[i].Text
		isModule := (prev == "-m" || prev == "--module") && module().MatchString(w)
		switch {
		case isModule && launches().MatchString(w):
			at, launched = i, true
		case isModule || scriptName().MatchString(w):
			return i, launched
		}
	}
	return at, launched
}

// Script returns the name of a program, or of the script it runs.
func Script(cmd []Word) string {
	at, _ := script(cmd)
	return path.Base(cmd[at].Text)
}

// base returns a prefix for the names of a program's jobs, and adds it to taken. It chooses the prefix
// so that the glob PREFIX-* matches no job of another taken prefix, and vice versa.
func base(cmd []Word, taken map[string]bool) string {
	base := Script(cmd)
	if at, _ := script(cmd); at > 1 && cmd[at-1].Text == "-m" {
		base = base[strings.LastIndexByte(base, '.')+1:]
	}
	base = strings.Trim(unnamable().ReplaceAllString(scriptName().ReplaceAllString(base, ""), "-"), "-.")
	if base == "" || len(base) > 60 {
		base = "job"
	}
	for n, name := 2, base; ; n++ {
		free := true
		for other := range taken {
			free = free && !strings.HasPrefix(other+"-", name+"-") && !strings.HasPrefix(name+"-", other+"-")
		}
		if free {
			taken[name] = true
			return name
		}
		name = fmt.Sprintf("%s%d", base, n)
	}
}

// cells returns the texts of a job.
func (j *Job) cells() (list []cell) {
	add := func(w Word, kind, hint string) {
		if w.Raw {
			kind = "=raw " + kind
		}
		list = append(list, cell{w, kind, hint})
	}
	for _, cmd := range j.Run {
		add(Word{}, "command", "")
		at, launched := script(cmd)
		program, hint := at+1, ""
		if at > 3 && launched {
			program = 1 // the launcher's options may differ
		}
		for i, w := range cmd {
			opt, key := option().FindString(w.Text), keyed().FindString(w.Text)
			switch {
			case i < program || w.Raw && !strings.ContainsAny(w.Text, "/=$"):
				add(w, "="+w.Text, "")
				continue
			case opt != "":
				hint = strings.TrimLeft(opt, "-")
				if len(opt) == len(w.Text) {
					add(w, "="+opt, "")
					continue
				}
				add(w, "="+opt+"=", hint)
			case key != "" && !strings.Contains(w.Text, " "):
				add(w, "="+key, key[strings.LastIndexAny(key[:len(key)-1], "./+~@")+1:len(key)-1])
			default:
				add(w, "value", hint)
			}
			hint = ""
		}
	}
	for _, kv := range j.Env {
		name, value, _ := strings.Cut(kv, "=")
		add(Word{Text: value}, "env "+name, strings.ToLower(strings.TrimSuffix(name, "+")))
	}
	for i, text := range []string{j.Dir, j.Log, j.Stdout, j.Stderr} {
		if text != "" && text != "." {
			add(Word{Text: text}, []string{"work_dir", "log", "stdout", "stderr"}[i], []string{"dir", "rep", "rep", "rep"}[i])
		}
	}
	return list
}

// inShell reports whether a cell is part of a command.
func (c *cell) inShell() bool { return c.kind == "value" || c.kind[0] == '=' }

type table struct {
	rows [][]cell
	jobs []int
}

// kinds returns a string that rows of the same table share.
func kinds(row []cell) string {
	s := ""
	for _, c := range row {
		s += c.kind + "\x00"
	}
	return s
}

// optional turns words that only some of a program's commands have into a parameter named flags, so
// that the program's jobs can share an entry. It returns the rows unchanged if they differ elsewhere.
func optional(rows [][]cell) [][]cell {
	row, least := rows[0], len(rows[0])
	begin, end := least, least // lengths of the beginning and end that all rows share
	for _, r := range rows {
		n := 0
		for ; n < min(begin, len(r)) && r[n].kind == row[n].kind; n++ {
		}
		begin, least = n, min(least, len(r))
		for n = 0; n < min(end, len(r)) && r[len(r)-1-n].kind == row[len(row)-1-n].kind; n++ {
		}
		end = n
	}
	if end = min(end, least-begin); least > begin+end {
		return rows // every command has words of its own between the common beginning and end
	}
	out := make([][]cell, len(rows))
	for i, r := range rows {
		flags := r[begin : len(r)-end]
		text := make([]string, len(flags))
		for k, c := range flags {
			if !c.inShell() || c.Raw || !strings.HasPrefix(flags[0].kind, "=-") {
				return rows
			}
			text[k] = shellescape.Quote(c.Text)
		}
		out[i] = slices.Concat(r[:begin], []cell{{Word{strings.Join(text, " "), true}, "=flags", "flags"}}, r[len(r)-end:])
	}
	return out
}

// Fold returns the entries for a table of jobs, in the order of their first jobs.
func Fold(jobs []Job) (entries []Entry) { return fold(jobs, true) }

func fold(jobs []Job, flags bool) (entries []Entry) {
	rows, programs := make([][]cell, len(jobs)), map[string][]int{}
	for i := range jobs {
		rows[i] = jobs[i].cells()
		if j := &jobs[i]; flags && !j.Queued && len(j.Run) == 1 {
			k := fmt.Sprint(Program(j.Run[0]), j.Keys)
			programs[k] = append(programs[k], i)
		}
	}
	for _, list := range programs {
		var same [][]cell
		kind := map[string]bool{}
		for _, i := range list {
			same, kind[kinds(rows[i])] = append(same, rows[i]), true
		}
		if len(kind) > 1 {
			for k, row := range optional(same) {
				rows[list[k]] = row
			}
		}
	}
	var tables []*table
	byKind := map[string]*table{}
	for i, row := range rows {
		k := kinds(row) + strings.Join(jobs[i].Keys, "\x00")
		for _, cmd := range jobs[i].Run {
			k += fmt.Sprint("\x00", Program(cmd))
		}
		if jobs[i].Queued {
			k = fmt.Sprint(i)
		}
		if byKind[k] == nil {
			byKind[k] = &table{}
			tables = append(tables, byKind[k])
		}
		byKind[k].rows, byKind[k].jobs = append(byKind[k].rows, row), append(byKind[k].jobs, i)
	}
	taken := map[string]bool{}
	for _, t := range tables {
		e := t.entry(base(jobs[t.jobs[0]].Run[0], taken))
		first := &jobs[t.jobs[0]]
		if e.Keys, e.Queued = first.Keys, first.Queued; len(t.jobs) == 1 {
			e.text = first.Text
		}
		entries = append(entries, e)
	}
	return entries
}
