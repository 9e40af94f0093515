// Package expand turns one job of a file, as written, into its expansions: the matrix and its
// tables of parameters into values, and texts with {variables} into what they say for one of
// them. It knows no dialect.
package expand

import (
	"slices"
)

// Texts with {variables} are parsed once and rendered for each job that is looked at: a
// Text is a list of segments, each literal or a variable.

// A VarKind is what a piece of a text is: literal, a parameter, or a variable of every job.
type VarKind uint8

const (
	VarLiteral VarKind = iota
	VarParam
	VarName
	VarWorkDir
	VarUniID
	varAttempt
	VarGPUList
	VarGPU
	varNGPUs
	varPort
	VarConfig
	VarLog
	varStarted
)

// A VarSet is a set of kinds.
type VarSet uint16

func setOf(kinds ...VarKind) (s VarSet) {
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has reports whether a kind is in the set.
func (s VarSet) Has(k VarKind) bool { return s&(1<<k) != 0 }

// What each place of a job can use besides the job's parameters.
var (
	InName   = setOf()
	InJob    = setOf(VarName, VarWorkDir)
	AtStart  = InJob | setOf(VarUniID, varAttempt, VarGPUList, VarGPU, varNGPUs, varPort, VarConfig, VarLog, varStarted)
	InLog    = AtStart &^ setOf(VarLog)
	InMetric = InLog &^ setOf(VarConfig)
	InConfig = AtStart &^ setOf(VarConfig)
)

var builtins = []string{"name", "work_dir", "uni_id", "attempt", "gpu_list", "gpu", "ngpus", "port", "config", "log", "started"}

// builtin returns the kind of a variable that every job has, or VarLiteral.
func builtin(word string) VarKind {
	if i := slices.Index(builtins, word); i >= 0 {
		return VarName + VarKind(i)
	}
	return VarLiteral
}

// Numeric reports whether a run-time variable can have a number format.
func (k VarKind) Numeric() bool {
	return k == varAttempt || k == VarGPU || k == varNGPUs || k == varPort
}

// A Segment is a piece of a text, literal or a variable.
type Segment struct {
	Kind   VarKind
	Format string // after the colon: "q", "03d"
	Lit    string // literal text, or the variable as spelled, braces included
	Param  string // name, for VarParam
}

// A Text is a string of the job file, parsed. A nil one is not given.
type Text struct {
	Segs      []Segment
	Raw       string
	Line, Col int
}

// Sole returns the variable that makes up the whole text, or nil.
func (t *Text) Sole() *Segment {
	if len(t.Segs) == 1 && t.Segs[0].Kind != VarLiteral && t.Segs[0].Format == "" {
		return &t.Segs[0]
	}
	return nil
}

// Constant reports whether the text is the same for every job.
func (t *Text) Constant() bool {
	return !slices.ContainsFunc(t.Segs, func(g Segment) bool { return g.Kind != VarLiteral })
}

// Uses reports whether a variable of a kind is in the text.
func (t *Text) Uses(k VarKind) bool {
	return t != nil && slices.ContainsFunc(t.Segs, func(g Segment) bool { return g.Kind == k })
}

// Below returns t on the lines below another text.
func (t *Text) Below(other *Text) *Text {
	return &Text{Segs: slices.Concat(other.Segs, []Segment{{Kind: VarLiteral, Lit: "\n"}}, t.Segs), Raw: other.Raw + "\n" + t.Raw, Line: t.Line, Col: t.Col}
}

// Literal returns a text without variables.
func Literal(s string, line, col int) *Text {
	return &Text{Segs: []Segment{{Kind: VarLiteral, Lit: s}}, Raw: s, Line: line, Col: col}
}
