package lint

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// each calls f for every node of the script, outer nodes first. maybe is set if the node might not
// run. If f returns false, the nodes inside are skipped.
func (l *linter) each(f func(n syntax.Node, maybe bool) bool) {
	type frame struct {
		node  syntax.Node
		maybe bool
	}
	open := []frame{{}}
	syntax.Walk(l.file, func(n syntax.Node) bool {
		up := open[len(open)-1]
		if n == nil {
			open = open[:len(open)-1]
			return true
		}
		maybe := up.maybe || conditional(up.node, n)
		if !f(n, maybe) {
			return false
		}
		open = append(open, frame{n, maybe})
		return true
	})
}

// conditional reports whether n, a direct child of parent, might not run.
func conditional(parent, n syntax.Node) bool {
	s, ok := n.(*syntax.Stmt)
	if !ok {
		return false
	}
	switch p := parent.(type) {
	case *syntax.IfClause:
		return !slices.Contains(p.Cond, s)
	case *syntax.CaseItem:
		return true
	case *syntax.BinaryCmd:
		return s == p.Y && (p.Op == syntax.OrStmt || p.Op == syntax.AndStmt && isTest(p.X))
	}
	return false
}

// isTest reports whether s is a test, such as [ … ] or [[ … ]], so that a following && is a
// condition.
func isTest(s *syntax.Stmt) bool {
	switch c := s.Cmd.(type) {
	case *syntax.TestClause, *syntax.ArithmCmd:
		return true
	case *syntax.BinaryCmd:
		return isTest(c.X) || isTest(c.Y)
	case *syntax.CallExpr:
		return len(c.Args) > 0 && slices.Contains([]string{"[", "test", "command", "which", "type", "grep"}, c.Args[0].Lit())
	}
	return false
}

// survey collects the facts about the whole script that checks of single commands need.
func (l *linter) survey() {
	for n := range syntax.Preorder(l.file) {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				l.funcs[n.Name.Value] = n.Body
			}
		case *syntax.CallExpr:
			l.note(n)
		case *syntax.ParamExp:
			l.granted = l.granted || n.Param != nil && grantedName(n.Param.Value)
		}
	}
	l.each(l.origins)
}

// note records a command by its first word, and by its first two words.
func (l *linter) note(c *syntax.CallExpr) {
	words := l.unwrap(c.Args)
	if len(words) == 0 {
		return
	}
	name := words[0].prefix
	l.commands[name] = true
	if len(words) > 1 {
		l.commands[name+" "+words[1].prefix] = true
	}
}

// check checks one node, and reports whether to check the nodes inside.
func (l *linter) check(n syntax.Node, maybe bool) bool {
	switch n := n.(type) {
	case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		return false
	case *syntax.Redirect:
		if n.Word != nil {
			l.quoting(n.Word)
		}
	case *syntax.Assign:
		l.assign(n, maybe)
	case *syntax.CallExpr:
		l.call(n, maybe)
	}
	return true
}

// assign checks NAME=value.
func (l *linter) assign(a *syntax.Assign, maybe bool) {
	v := text("")
	if a.Value != nil {
		l.quoting(a.Value)
		v = l.eval(a.Value)
	}
	if a.Name != nil && !a.Naked && a.Array == nil && a.Index == nil {
		l.setting(a.Name.Value, v, maybe, a)
	}
}

// setting checks an environment variable that a command sets.
func (l *linter) setting(name string, v value, maybe bool, at syntax.Node) {
	switch name {
	case "CUDA_VISIBLE_DEVICES":
		l.visible(v, maybe, at)
	case "MASTER_PORT", "PET_MASTER_PORT":
		l.port(v, at)
	}
}
