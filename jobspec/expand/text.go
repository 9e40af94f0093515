// Package expand turns one job in a file into its expansions: it lists the values of the job's
// matrix and tables, and replaces the {variables} in each text. It does not depend on the dialect.
package expand

import (
	"slices"
)

// Texts with {variables} are parsed once and rendered on demand. A Text is a list of segments, each
// of which is literal text or a variable.

// A VarKind is the kind of a segment: literal text, a parameter, or a variable that every job has.
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

// These are the variables that each part of a job can use in addition to the job's parameters.
var (
	InName   = setOf()
	InJob    = setOf(VarName, VarWorkDir)
	AtStart  = InJob | setOf(VarUniID, varAttempt, VarGPUList, VarGPU, varNGPUs, varPort, VarConfig, VarLog, varStarted)
	InLog    = AtStart &^ setOf(VarLog)
	InMetric = InLog &^ setOf(VarConfig)
	InConfig = AtStart &^ setOf(VarConfig)
)

var builtins = []string{"name", "work_dir", "uni_id", "attempt", "gpu_list", "gpu", "ngpus", "port", "config", "log", "started"}

// builtin returns the kind of a variable that every job has, or VarLiteral for any other word.
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

// A Segment is a piece of a text: literal text or a variable.
type Segment struct {
	Kind   VarKind
	Format string // after the colon: "q", "03d"
	Lit    string // literal text, or the variable as spelled, braces included
	Param  string // name, for VarParam
}

// A Text is a parsed string of the job file. It is nil if the string is not given.
type Text struct {
	Segs      []Segment
	Raw       string
	Line, Col int
}

// Sole returns the variable if the text consists of a single variable without a format, else nil.
func (t *Text) Sole() *Segment {
	if len(t.Segs) == 1 && t.Segs[0].Kind != VarLiteral && t.Segs[0].Format == "" {
		return &t.Segs[0]
	}
	return nil
}

// Constant reports whether the text contains no variables.
func (t *Text) Constant() bool {
	return !slices.ContainsFunc(t.Segs, func(g Segment) bool { return g.Kind != VarLiteral })
}

// Uses reports whether the text contains a variable of kind k.
func (t *Text) Uses(k VarKind) bool {
	return t != nil && slices.ContainsFunc(t.Segs, func(g Segment) bool { return g.Kind == k })
}

// Below returns the other text followed by t on the next line.
func (t *Text) Below(other *Text) *Text {
	return &Text{Segs: slices.Concat(other.Segs, []Segment{{Kind: VarLiteral, Lit: "\n"}}, t.Segs), Raw: other.Raw + "\n" + t.Raw, Line: t.Line, Col: t.Col}
}

// Literal returns a text without variables.
func Literal(s string, line, col int) *Text {
	return &Text{Segs: []Segment{{Kind: VarLiteral, Lit: s}}, Raw: s, Line: line, Col: col}
}
