package jobspec

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A block is one job of the block dialect, as it stands in the file.
type block struct {
	Line      int    // of its first line that is no comment, 1-based
	Queue     string // digits, without leading zeros
	GPUs      int
	GiB       float64 // of memory on each GPU
	Commands  []blockCommand
	Optimised bool // queue first, then the commands; else "queue,GB" at the end
}

// A blockCommand is one line of a block, its pair of double quotes taken off.
type blockCommand struct {
	Text      string
	Line, Col int // of its first character, 1-based, in characters
}

// Bounds of what is taken for a number that somebody meant.
const (
	maxBlockGPUs  = 1024
	maxBlockGiB   = 65536
	maxQueueWidth = 9 // digits
)

var (
	// "1,20", "1, 20GB # both"
	queueAndGB = regexp.MustCompile(`^(-?\d+)\s*,\s*(-?\d+(?:\.\d+)?)\s*(?i:GiB|GB|G)?\s*(?:#.*)?$`)
	// the same with another comma that looks like one
	wrongComma = regexp.MustCompile(`^(\d+)\s*[，、､;；]\s*(\d+(?:\.\d+)?)\s*(?i:GiB|GB|G)?\s*(?:#.*)?$`)
	// "2 #GPUs", "20", "20 GB of memory"
	numberLine = regexp.MustCompile(`^(-?\d+(?:\.\d+)?)\s*(?i:GiB|GB|G|GPUs?)?(?:\s*#.*|\s.*)?$`)
	// "1 python train.py"
	commandBehind = regexp.MustCompile(`^-?[0-9.]+\s+"?((?:python[0-9.]*|bash|sh|torchrun|accelerate|deepspeed|cd|export|source|rm|\./\S*|[A-Z_]+=\S*|\S+\.(?:py|sh))(?:\s.*)?)$`)
)

// A blockLine is a line that is neither blank nor a comment, without the space
// around it.
type blockLine struct {
	text      string
	line, col int
}

// parseBlocks reads a file of blocks. Every block is a job or a problem, never
// nothing.
func parseBlocks(file string, data []byte) ([]block, []Problem) {
	p := &blockParser{file: file}
	for _, lines := range splitBlocks(data) {
		p.block(lines)
	}
	return p.blocks, p.problems
}

// looksLikeBlocks says whether a file of unknown kind is one of blocks: at least
// one of its blocks is as it should be, so that the errors of the others are told
// in the words of this dialect.
func looksLikeBlocks(data []byte) bool {
	blocks, _ := parseBlocks("", data)
	return len(blocks) > 0
}

func splitBlocks(data []byte) [][]blockLine {
	var all [][]blockLine
	var lines []blockLine
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for n, raw := range strings.Split(string(data), "\n") {
		text := strings.TrimSpace(raw)
		switch {
		case text == "":
			if len(lines) > 0 {
				all, lines = append(all, lines), nil
			}
		case text[0] == '#':
		default:
			before := raw[:strings.Index(raw, text)]
			lines = append(lines, blockLine{text, n + 1, 1 + utf8.RuneCountInString(before)})
		}
	}
	if len(lines) > 0 {
		all = append(all, lines)
	}
	return all
}

type blockParser struct {
	file     string
	blocks   []block
	problems []Problem
	bad      bool // the block at hand has a problem
}

func (p *blockParser) problem(l blockLine, hint, format string, args ...any) {
	p.bad = true
	p.problems = append(p.problems, Problem{File: p.file, Line: l.line, Col: l.col, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// block reads one block in the layout that its first and last line tell.
func (p *blockParser) block(lines []blockLine) {
	p.bad = false
	first, last := lines[0], lines[len(lines)-1]
	b := block{Line: first.line, GPUs: 1}
	starts, ends := numberLine.MatchString(first.text), queueAndGB.FindStringSubmatch(last.text)
	switch {
	case ends != nil && len(lines) == 1:
		p.problem(last, "put a command above it", "%q has no command to run", clip(last.text))
	case ends != nil && starts:
		p.problem(first, "take one of them out", "the queue stands twice, here and on line %d", last.line)
	case ends != nil:
		b.Queue, b.GiB = p.queue(last, ends[1]), p.memory(last, ends[2])
		b.Commands = p.commands(lines[:len(lines)-1])
	case starts && len(lines) > 2 && numberLine.MatchString(last.text):
		p.optimised(&b, lines)
	default:
		p.neither(lines)
	}
	if !p.bad {
		p.blocks = append(p.blocks, b)
	}
}

func (p *blockParser) optimised(b *block, lines []blockLine) {
	b.Optimised = true
	first, last := lines[0], lines[len(lines)-1]
	b.Queue, b.GiB = p.queue(first, p.number(first)), p.memory(last, p.number(last))
	middle := lines[1 : len(lines)-1]
	if l := middle[len(middle)-1]; numberLine.MatchString(l.text) {
		b.GPUs = p.gpus(l, p.number(l))
		middle = middle[:len(middle)-1]
	}
	if len(middle) == 0 {
		p.problem(first, "put a command between the queue and the numbers at the end", "the block has no command to run")
	}
	b.Commands = p.commands(middle)
}

// neither says why a block fits no layout, as far as its lines tell.
func (p *blockParser) neither(lines []blockLine) {
	for i, l := range lines {
		if m := wrongComma.FindStringSubmatch(l.text); m != nil {
			p.problem(l, fmt.Sprintf("write %s,%s", m[1], m[2]), "%q is not separated by a comma of ASCII", clip(l.text))
			return
		}
		if i < len(lines)-1 && queueAndGB.MatchString(l.text) {
			p.problem(lines[i+1], "put a blank line before it", "the block has ended with %q on line %d, and goes on", clip(l.text), l.line)
			return
		}
	}
	first, last := lines[0], lines[len(lines)-1]
	where := fmt.Sprintf("lines %d-%d are", first.line, last.line)
	if len(lines) == 1 {
		where = fmt.Sprintf("line %d is", first.line)
	}
	hint := `end it with a line "queue,GB", as 1,20`
	if numberLine.MatchString(first.text) {
		hint = "end it with a line that says how many GB of memory it needs, as 20"
	}
	p.problem(first, hint, "%s no job: neither commands and then queue,GB, nor queue, commands and GB: %q", where, clip(first.text))
}

func firstNumber(l blockLine) string { return numberLine.FindStringSubmatch(l.text)[1] }

// number is the number that a line stands for. What is behind it is a comment,
// unless it is a command, which must not be dropped.
func (p *blockParser) number(l blockLine) string {
	if m := commandBehind.FindStringSubmatch(l.text); m != nil {
		p.problem(l, `give it a line of its own; if it is a comment, put a "#" before it`, "the command %q stands behind a number", clip(m[1]))
	}
	return firstNumber(l)
}

func (p *blockParser) queue(l blockLine, text string) string {
	digits := strings.TrimLeft(text, "0")
	if digits == "" {
		digits = "0"
	}
	if strings.ContainsAny(digits, "-.") || len(digits) > maxQueueWidth {
		p.problem(l, "say 1", "queue %s is no number of a queue", clip(text))
	}
	return digits
}

func (p *blockParser) gpus(l blockLine, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxBlockGPUs {
		p.problem(l, fmt.Sprintf("say a whole number from 1 to %d", maxBlockGPUs), "%s is no number of GPUs", clip(text))
	}
	return n
}

func (p *blockParser) memory(l blockLine, text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > maxBlockGiB {
		p.problem(l, "say how many GB each GPU must have free, as 20", "%s GB is no amount of GPU memory", clip(text))
	}
	return f
}

func (p *blockParser) commands(lines []blockLine) []blockCommand {
	var list []blockCommand
	for _, l := range lines {
		switch {
		case queueAndGB.MatchString(l.text):
			p.problem(l, "put a blank line behind it", "%q in the middle of a block", clip(l.text))
		case bareNumber(l.text):
			p.problem(l, "a block has one queue, at most one number of GPUs, and one of GB", "the number %s stands where a command is expected", clip(l.text))
		case strings.HasSuffix(l.text, `\`):
			p.problem(l, "write it on one line: each line is a command of its own", "the command goes on behind its line: %q", clip(l.text))
		default:
			list = append(list, p.command(l))
		}
	}
	return list
}

// bareNumber tells a number, with or without a comment, from a command whose
// name begins with one.
func bareNumber(text string) bool {
	number, _, _ := strings.Cut(text, "#")
	_, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	return err == nil
}

// command takes off one pair of double quotes around the whole line. A line
// with more of them is left to the shell, but for what no shell would understand
// as it was meant.
func (p *blockParser) command(l blockLine) blockCommand {
	c := blockCommand{l.text, l.line, l.col}
	if l.text[0] != '"' {
		return c
	}
	end := closingQuote(l.text)
	switch {
	case end < 0:
		p.problem(l, `close it, or take it off`, "a double quote is not closed: %q", clip(l.text))
	case end == len(l.text)-1:
		inner := l.text[1:end]
		c.Text, c.Col = strings.TrimSpace(inner), l.col+1+len(inner)-len(strings.TrimLeft(inner, " \t"))
		if c.Text == "" {
			p.problem(l, "put a command between the quotes", "an empty command")
		}
	case strings.HasSuffix(l.text, `"`) && strings.ContainsRune(" =", rune(l.text[end-1])) && l.text[end+1] != ' ':
		p.problem(l, "take the outer quotes off", "double quotes within double quotes: %q", clip(l.text))
	}
	return c
}

// closingQuote is where the quote that text begins with is closed, or -1.
func closingQuote(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}
