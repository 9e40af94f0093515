package lint

import (
	"regexp"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// endsScript matches a line that runs wait or exit, which args are never meant for.
var endsScript = regexp.MustCompile(`^(?:wait|exit)(?:\s|$)`)

// ArgsPlace checks the last line of the last command, to which args are appended. If the line ends
// in a comment, the job would run without the args. If it ends in a command that they are not meant
// for, that command would get them.
func ArgsPlace(src *source.Source, j *expand.Job, experiment bool) {
	if len(j.Args) == 0 || len(j.Commands) == 0 {
		return
	}
	t := j.Commands[len(j.Commands)-1]
	script := strings.TrimRight(t.Raw, "\n")
	from := strings.LastIndexByte(script, '\n') + 1
	last := script[from:]
	quote := QuoteAfter(script[:from], 0)
	comment, sign := outsideQuotes(last, quote)
	text := strings.TrimSpace(last)
	line, col := lineOf(src, t, strings.Count(script[:from], "\n"))
	switch {
	case comment:
		src.Problem(line, col, "put the command that takes the args at the end of the script", "args would become part of the comment in %q", source.Clip(text))
	case experiment: // its program is a setting shared by all jobs
	case !takesArgs(script):
		src.Problem(line, col, "put the command that takes the args at the end of the script, or write the args in that command", "args cannot follow %q", source.Clip(text))
	case sign || quote == 0 && endsScript.MatchString(text):
		src.Warning(line, col, "move the command that takes the args to the end, or write the args in that command", "args are appended to %q, so only its last command gets them", source.Clip(text))
	}
}

// takesArgs reports whether arguments appended to a script become arguments of its last command.
// After the end of a here-document, they would become part of its text; after a backslash, part of a
// word; and after a loop or subshell, a syntax error.
func takesArgs(script string) bool {
	if backslashes := len(script) - len(strings.TrimRight(script, `\`)); backslashes%2 == 1 {
		return false
	}
	return ParseCommandLine(script).Err != "" || ParseCommandLine(script+" x").Err == ""
}

// lineOf returns the position in the file of line n of a script, counted from 0.
func lineOf(src *source.Source, t *expand.Text, n int) (line, col int) {
	text := strings.TrimSpace(strings.Split(t.Raw, "\n")[n])
	if line, col = src.Find(t.Line+n, 1, text); line == t.Line+n+1 { // below "run: |"
		return line, col
	}
	return src.Find(t.Line, t.Col, text)
}

// outsideQuotes reports whether a line of a script ends in a comment, and whether it contains
// several commands. quote is the quote that earlier lines left open, or 0.
func outsideQuotes(line string, quote byte) (comment, several bool) {
	unquoted(line, quote, func(i int) bool {
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = line[i-1]
		}
		if i+1 < len(line) {
			after = line[i+1]
		}
		switch c := line[i]; {
		case c == '#' && strings.IndexByte(" \t;&|(", before) >= 0:
			comment = true
		case c == ';', c == '|' && before != '>', c == '&' && strings.IndexByte("<>", before) < 0 && after != '>':
			several = true
		}
		return !comment
	})
	return comment, several
}

// QuoteAfter returns the quote that is open in a shell after s, or 0 if none is. quote is the one
// that is open before s, or 0.
func QuoteAfter(s string, quote byte) byte {
	return unquoted(s, quote, func(int) bool { return true })
}

// unquoted calls f with the index of each byte of s that is neither quoted nor a quote, until f
// returns false. It returns the quote that is open at that point, or 0.
func unquoted(s string, quote byte, f func(i int) bool) byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		case quote == 0 && !f(i):
			return 0
		}
	}
	return quote
}
