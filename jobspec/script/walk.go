package script

import (
	"mvdan.cc/sh/v3/syntax"
)

// survey records what checking single commands needs to know about the whole script.
func (l *linter) survey() {
	l.commands = map[string]bool{}
	syntax.Walk(l.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				l.funcs[n.Name.Value] = n.Body
			}
		case *syntax.CallExpr:
			l.note(n)
		case *syntax.ParamExp:
			if n.Param != nil && grantedName(n.Param.Value) {
				l.granted = true
			}
		}
		return true
	})
	l.origins(l.file.Stmts, false)
}

// note records the first word of a command, and its first two.
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

// stmts checks commands. maybe is set if it is not certain that they run at all.
func (l *linter) stmts(list []*syntax.Stmt, maybe bool) {
	for _, s := range list {
		l.stmt(s, maybe)
	}
}

func (l *linter) stmt(s *syntax.Stmt, maybe bool) {
	for _, r := range s.Redirs {
		l.inner(r, maybe)
		if r.Word != nil {
			l.quoting(r.Word)
		}
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		l.call(c, maybe)
	case *syntax.DeclClause:
		for _, a := range c.Args {
			l.assign(a, maybe)
		}
	default:
		eachBody(s, maybe, l.stmts)
		l.loopWords(s.Cmd, maybe)
	}
}

// eachBody calls f for the lists of commands in a compound command.
func eachBody(s *syntax.Stmt, maybe bool, f func(list []*syntax.Stmt, maybe bool)) {
	one := func(s *syntax.Stmt, maybe bool) {
		if s != nil {
			f([]*syntax.Stmt{s}, maybe)
		}
	}
	switch c := s.Cmd.(type) {
	case *syntax.Block:
		f(c.Stmts, maybe)
	case *syntax.Subshell:
		f(c.Stmts, maybe)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			f(c.Cond, maybe)
			f(c.Then, true)
		}
	case *syntax.WhileClause:
		f(c.Cond, maybe)
		f(c.Do, maybe)
	case *syntax.ForClause:
		f(c.Do, maybe)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			f(item.Stmts, true)
		}
	case *syntax.BinaryCmd:
		one(c.X, maybe)
		one(c.Y, maybe || c.Op == syntax.OrStmt || c.Op == syntax.AndStmt && isTest(c.X))
	case *syntax.FuncDecl:
		one(c.Body, maybe)
	case *syntax.TimeClause:
		one(c.Stmt, maybe)
	case *syntax.CoprocClause:
		one(c.Stmt, maybe)
	}
}

// isTest recognizes [ … ], [[ … ]] and the like, after which && is an if.
func isTest(s *syntax.Stmt) bool {
	switch c := s.Cmd.(type) {
	case *syntax.TestClause, *syntax.ArithmCmd:
		return true
	case *syntax.BinaryCmd:
		return isTest(c.X) || isTest(c.Y)
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return false
		}
		switch c.Args[0].Lit() {
		case "[", "test", "command", "which", "type", "grep":
			return true
		}
	}
	return false
}

// loopWords checks the words that a for or case iterates over.
func (l *linter) loopWords(c syntax.Command, maybe bool) {
	switch c := c.(type) {
	case *syntax.ForClause:
		if it, ok := c.Loop.(*syntax.WordIter); ok {
			for _, w := range it.Items {
				l.inner(w, maybe)
			}
		}
	case *syntax.CaseClause:
		if c.Word != nil {
			l.inner(c.Word, maybe)
		}
	}
}

// inner checks the commands of $(…) within n.
func (l *linter) inner(n syntax.Node, maybe bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			l.stmts(n.Stmts, maybe)
			return false
		case *syntax.ProcSubst:
			l.stmts(n.Stmts, maybe)
			return false
		}
		return true
	})
}

// assign checks NAME=value.
func (l *linter) assign(a *syntax.Assign, maybe bool) {
	if a.Value != nil {
		l.inner(a.Value, maybe)
		l.quoting(a.Value)
	}
	if a.Array != nil {
		l.inner(a.Array, maybe)
	}
	if a.Name == nil || a.Naked || a.Array != nil || a.Index != nil {
		return
	}
	v := text("")
	if a.Value != nil {
		v = l.eval(a.Value)
	}
	l.setting(a.Name.Value, v, maybe, a)
}

// setting checks an environment variable that a command sets.
func (l *linter) setting(name string, v value, maybe bool, at syntax.Node) {
	switch name {
	case "CUDA_VISIBLE_DEVICES":
		l.visible(name, v, maybe, at)
	case "MASTER_PORT", "PET_MASTER_PORT":
		l.port(name, v, at)
	}
}
