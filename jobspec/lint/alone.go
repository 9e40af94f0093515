package lint

import (
	"errors"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"mvdan.cc/sh/v3/syntax"

	"gpurun/jobspec/fold"
)

// A CommandLine is a line that will run as a job of its own, in its own shell.
type CommandLine struct {
	Text  string   // without the parts that a job does not need: nohup and a final &
	Taken []string // what was removed: "nohup", "&"
	Idle  string   // its first command, if the line only changes its own shell or waits: "cd"
	Err   string   // why it is not a complete command
	At    int      // the line with the error, from 1; 0 if unknown
}

// ParseCommandLine analyzes a line of commands. Text that is too long or nested too deeply to be
// parsed is accepted unchanged.
func ParseCommandLine(text string) (l CommandLine) {
	l.Text = text
	if tooLarge(text) {
		return l
	}
	defer func() { // see checkNested
		if recover() != nil {
			l = CommandLine{Text: text}
		}
	}()
	file, err := parse(text)
	if err != nil {
		l.Err = err.Error()
		var at syntax.ParseError
		if errors.As(err, &at) {
			l.Err, l.At = at.Text, int(at.Pos.Line())
		}
		return l
	}
	l.Idle = idle(file.Stmts)
	l.take(file)
	return l
}

// Words splits a line into its words and the text between them. Joined with spaces, these pieces
// mean the same to the shell as the line.
func Words(text string) (words []fold.Word) {
	whole := []fold.Word{{Text: text, Raw: true}}
	normalized := func(text string) (*syntax.File, string) {
		file, err := parse(text)
		var normal strings.Builder
		if err != nil || syntax.NewPrinter().Print(&normal, file) != nil {
			return nil, ""
		}
		return file, normal.String()
	}
	if tooLarge(text) || strings.Contains(text, "\n") {
		return whole
	}
	file, normal := normalized(text)
	if file == nil {
		return whole
	}
	at, again := uint(0), ""
	raw := func(s string) {
		if s != "" {
			words, again = append(words, fold.Word{Text: s, Raw: true}), again+" "+s
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			if n.Op != syntax.DplOut {
				return true
			}
			raw(strings.TrimSpace(text[min(at, n.Pos().Offset()):n.End().Offset()]))
			at = n.End().Offset()
			return false
		case *syntax.Assign, *syntax.Word:
			from, to := n.Pos().Offset(), n.End().Offset()
			raw(strings.TrimSpace(text[min(at, from):from]))
			raw(text[from:to])
			if w, ok := n.(*syntax.Word); ok && len(words) > 0 {
				if value, ok := literal(w.Parts); ok {
					words[len(words)-1] = fold.Word{Text: value}
				}
			}
			at = to
			return false
		}
		return true
	})
	raw(strings.TrimSpace(text[min(at, uint(len(text))):]))
	if _, same := normalized(again); same != normal {
		return whole
	}
	return words
}

// literal returns the value of a word if the shell does no more than remove its quotes.
func literal(parts []syntax.WordPart) (text string, ok bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			ok = shellescape.Quote(p.Value) == p.Value
			text += p.Value
		case *syntax.SglQuoted:
			ok = !p.Dollar
			text += p.Value
		case *syntax.DblQuoted:
			ok = !p.Dollar && len(p.Parts) < 2
			for _, inner := range p.Parts {
				lit, isLit := inner.(*syntax.Lit)
				if ok = isLit && !strings.ContainsAny(lit.Value, "\\!"); ok {
					text += lit.Value
				}
			}
		default:
			ok = false
		}
		if !ok {
			return "", false
		}
	}
	return text, ok
}

// take removes what would detach the work from its job: nohup, and the & after the last command. If
// an earlier command also runs in the background, each & stays, and lint reports it.
func (l *CommandLine) take(file *syntax.File) {
	type span struct{ from, to uint }
	var cuts []span
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 1 && c.Args[0].Lit() == "nohup" {
			cuts = append(cuts, span{c.Args[0].Pos().Offset(), c.Args[1].Pos().Offset()})
			l.Taken = append(l.Taken, "nohup")
		}
		return true
	})
	behind := func(s *syntax.Stmt) bool { return s.Background }
	if n := len(file.Stmts); n > 0 && slices.IndexFunc(file.Stmts, behind) == n-1 {
		at := file.Stmts[n-1].Semicolon.Offset()
		cuts = append(cuts, span{at, at + 1})
		l.Taken = append(l.Taken, "&")
	}
	slices.SortFunc(cuts, func(a, b span) int { return int(b.from) - int(a.from) })
	for _, c := range cuts {
		l.Text = l.Text[:c.from] + l.Text[c.to:]
	}
	l.Text = strings.TrimSpace(l.Text)
}

// idlers are commands that affect only the shell that runs them.
var idlers = []string{
	"cd", "pushd", "popd", "source", ".", "set", "unset", "shopt", "alias", "umask", "ulimit", "module", "ml", "workon",
	"deactivate", "wait", "exit", "trap", "disown",
}

// idle returns the first command of a list if none of its commands does any work, otherwise "".
func idle(list []*syntax.Stmt) string {
	first := ""
	for _, s := range list {
		word := ""
		switch c := s.Cmd.(type) {
		case *syntax.BinaryCmd:
			if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
				word = idle([]*syntax.Stmt{c.X, c.Y})
			}
		case *syntax.DeclClause:
			word = c.Variant.Value
		case *syntax.CallExpr:
			word = idleCall(c)
		}
		if word == "" {
			return ""
		}
		if first == "" {
			first = word
		}
	}
	return first
}

func idleCall(c *syntax.CallExpr) string {
	if len(c.Args) == 0 {
		if len(c.Assigns) == 0 {
			return ""
		}
		return c.Assigns[0].Name.Value + "=…"
	}
	name := c.Args[0].Lit()
	if slices.Contains([]string{"conda", "mamba", "micromamba"}, name) && len(c.Args) > 1 {
		if sub := c.Args[1].Lit(); sub == "activate" || sub == "deactivate" {
			return name + " " + sub
		}
		return ""
	}
	if slices.Contains(idlers, name) {
		return name
	}
	return ""
}
