// Package block parses the block dialect: a file of blocks, and the config.yaml next to it.
package block

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpurun/jobspec/source"
)

// A Block is one job of the block dialect, as written.
type Block struct {
	Line     int    // first line that is not a comment, 1-based
	Queue    string // digits, without leading zeros
	GPUs     int
	GiB      float64 // free memory needed on each GPU
	Commands []Command
}

// A Command is one line of a block, without surrounding double quotes.
type Command struct {
	Text      string
	Line, Col int // position of its first character, 1-based, in characters
}

// Numbers above these limits must be mistakes.
const (
	maxBlockGPUs  = 1024
	maxBlockGiB   = 65536
	maxQueueWidth = 9 // digits
)

var (
	// "1,20", "1, 20GB # both"
	queueAndGB = regexp.MustCompile(`^(-?\d+)\s*,\s*(-?\d+(?:\.\d+)?)\s*(?i:GiB|GB|G)?\s*(?:#.*)?$`)
	// the same with a character that looks like a comma
	wrongComma = regexp.MustCompile(`^(\d+)\s*[，、､;；]\s*(\d+(?:\.\d+)?)\s*(?i:GiB|GB|G)?\s*(?:#.*)?$`)
	// "2 #GPUs", "20", "20 GB of memory"
	numberLine = regexp.MustCompile(`^(-?\d+(?:\.\d+)?)\s*(?i:GiB|GB|G|GPUs?)?(?:\s*#.*|\s.*)?$`)
	// "1 python train.py"
	commandBehind = regexp.MustCompile(`^-?[0-9.]+\s+"?((?:python[0-9.]*|bash|sh|torchrun|accelerate|deepspeed|cd|export|source|rm|\./\S*|[A-Z_]+=\S*|\S+\.(?:py|sh))(?:\s.*)?)$`)
)

// A line is a non-blank line that is not a comment, without surrounding space.
type line struct {
	text      string
	line, col int
}

// Parse parses a file of blocks. Every block becomes a Block or a problem.
func Parse(file string, data []byte) ([]Block, []source.Problem) {
	p := &parser{file: file}
	for _, lines := range split(data) {
		p.block(lines)
	}
	return p.blocks, p.problems
}

// IsBlockFile reports whether a file of unknown format is a block file. One valid block is enough,
// so that errors in the others are reported as such.
func IsBlockFile(data []byte) bool {
	blocks, _ := Parse("", data)
	return len(blocks) > 0
}

func split(data []byte) [][]line {
	var all [][]line
	var lines []line
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
			lines = append(lines, line{text, n + 1, 1 + utf8.RuneCountInString(before)})
		}
	}
	if len(lines) > 0 {
		all = append(all, lines)
	}
	return all
}

type parser struct {
	file     string
	blocks   []Block
	problems []source.Problem
	bad      bool // the current block has a problem
}

func (p *parser) problem(l line, hint, format string, args ...any) {
	p.bad = true
	p.problems = append(p.problems, source.Problem{File: p.file, Line: l.line, Col: l.col, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// block parses one block. Its first and last lines determine the layout.
func (p *parser) block(lines []line) {
	p.bad = false
	first, last := lines[0], lines[len(lines)-1]
	b := Block{Line: first.line, GPUs: 1}
	starts, ends := numberLine.MatchString(first.text), queueAndGB.FindStringSubmatch(last.text)
	switch {
	case ends != nil && len(lines) == 1:
		p.problem(last, "add a command above it", "%q has no command to run", source.Clip(last.text))
	case ends != nil && starts:
		p.problem(first, "remove one of them", "the queue is set twice, here and on line %d", last.line)
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

func (p *parser) optimised(b *Block, lines []line) {
	first, last := lines[0], lines[len(lines)-1]
	b.Queue, b.GiB = p.queue(first, p.number(first)), p.memory(last, p.number(last))
	middle := lines[1 : len(lines)-1]
	if l := middle[len(middle)-1]; numberLine.MatchString(l.text) {
		b.GPUs = p.gpus(l, p.number(l))
		middle = middle[:len(middle)-1]
	}
	if len(middle) == 0 {
		p.problem(first, "add a command between the queue and the numbers at the end", "the block has no command to run")
	}
	b.Commands = p.commands(middle)
}

// neither reports why a block fits neither layout.
func (p *parser) neither(lines []line) {
	for i, l := range lines {
		if m := wrongComma.FindStringSubmatch(l.text); m != nil {
			p.problem(l, fmt.Sprintf("write %s,%s", m[1], m[2]), "no ASCII comma in %q", source.Clip(l.text))
			return
		}
		if i < len(lines)-1 && queueAndGB.MatchString(l.text) {
			p.problem(lines[i+1], "put a blank line before it", "unexpected line: the block ends with %q on line %d", source.Clip(l.text), l.line)
			return
		}
	}
	first, last := lines[0], lines[len(lines)-1]
	where := fmt.Sprintf("lines %d-%d are not", first.line, last.line)
	if len(lines) == 1 {
		where = fmt.Sprintf("line %d is not", first.line)
	}
	hint := `end it with a line "queue,GB", for example 1,20`
	if numberLine.MatchString(first.text) {
		hint = "end it with a line for the GPU memory in GB, for example 20"
	}
	p.problem(first, hint, `%s a job: %q (a job is commands and a line "queue,GB", or a queue line, commands and a GB line)`, where, source.Clip(first.text))
}

// number returns the number on a line. It refuses a line with a command after the number, so that
// no command is silently dropped.
func (p *parser) number(l line) string {
	if m := commandBehind.FindStringSubmatch(l.text); m != nil {
		p.problem(l, `put it on its own line; if it is a comment, put "#" before it`, "the command %q follows a number", source.Clip(m[1]))
	}
	return numberLine.FindStringSubmatch(l.text)[1]
}

func (p *parser) queue(l line, text string) string {
	digits := strings.TrimLeft(text, "0")
	if digits == "" {
		digits = "0"
	}
	if strings.ContainsAny(digits, "-.") || len(digits) > maxQueueWidth {
		p.problem(l, "try 1", "invalid queue number %s", source.Clip(text))
	}
	return digits
}

func (p *parser) gpus(l line, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxBlockGPUs {
		p.problem(l, fmt.Sprintf("use a whole number from 1 to %d", maxBlockGPUs), "invalid GPU count %s", source.Clip(text))
	}
	return n
}

func (p *parser) memory(l line, text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > maxBlockGiB {
		p.problem(l, "write how many GB must be free on each GPU, for example 20", "invalid GPU memory: %s GB", source.Clip(text))
	}
	return f
}

func (p *parser) commands(lines []line) []Command {
	var list []Command
	for _, l := range lines {
		switch {
		case queueAndGB.MatchString(l.text):
			p.problem(l, "add a blank line after it", "unexpected %q inside a block", source.Clip(l.text))
		case bareNumber(l.text):
			p.problem(l, "a block has one queue, one GB value and at most one GPU count", "expected a command, found the number %s", source.Clip(l.text))
		case strings.HasSuffix(l.text, `\`):
			p.problem(l, "write it on one line: each line is a separate command", "the command continues on the next line: %q", source.Clip(l.text))
		default:
			list = append(list, p.command(l))
		}
	}
	return list
}

// bareNumber reports whether a line is a number, with or without a comment, and not a command whose
// name begins with a digit.
func bareNumber(text string) bool {
	number, _, _ := strings.Cut(text, "#")
	_, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	return err == nil
}

// command strips one pair of double quotes around the whole line. A line with more quotes is left
// to the shell, unless no shell would parse it as intended.
func (p *parser) command(l line) Command {
	c := Command{l.text, l.line, l.col}
	if l.text[0] != '"' {
		return c
	}
	end := closingQuote(l.text)
	switch {
	case end < 0:
		p.problem(l, `close it, or remove it`, "unclosed double quote: %q", source.Clip(l.text))
	case end == len(l.text)-1:
		inner := l.text[1:end]
		c.Text, c.Col = strings.TrimSpace(inner), l.col+1+len(inner)-len(strings.TrimLeft(inner, " \t"))
		if c.Text == "" {
			p.problem(l, "put a command between the quotes", "empty command")
		}
	case strings.HasSuffix(l.text, `"`) && strings.ContainsRune(" =", rune(l.text[end-1])) && l.text[end+1] != ' ':
		p.problem(l, "remove the outer quotes", "double quotes within double quotes: %q", source.Clip(l.text))
	}
	return c
}

// closingQuote returns the index of the quote that closes the one at the beginning of text, or -1.
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
