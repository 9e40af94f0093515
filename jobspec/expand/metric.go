package expand

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

// A Metric is a number that a job produces. The job writes it to its log, to a file or, if neither
// is set, to GPURUN_RESULT.
type Metric struct {
	Name    string
	Log     *regexp.Regexp // its group matches the value; the last matching line of the log counts
	Step    *regexp.Regexp // its group matches the step of values in this and later lines; nil to count the values
	File    *Text
	Path    string // the absolute path of the file; only set for a rendered job
	Key     string // position in the file: a dotted path, or the name of a column
	At      string // column whose best value selects the row of the file; "" for the last row
	AtMax   bool   // whether the highest value of At is best
	Goal    Goal
	Percent bool   // display it as a percentage
	Sum     string // identifies the rule that reads the value; "" for values that the job reports itself
	Rule    string // identifies the rule that reads the points of its curve
}

// A Goal says whether a higher or lower value is better.
type Goal string

const (
	NoGoal Goal = ""
	Max    Goal = "max"
	Min    Goal = "min"
)

// SetSum sets Sum and Rule, so that values and points read by different rules are not compared.
func (m *Metric) SetSum() {
	short := func(rule string) string {
		sum := sha256.Sum256([]byte(rule))
		return hex.EncodeToString(sum[:4])
	}
	m.Rule = short(fmt.Sprintf("%s\x00%v\x00%v", m.Name, m.Log, m.Step))
	rule := ""
	switch {
	case m.Log != nil:
		rule = "log\x00" + m.Log.String()
	case m.File != nil:
		rule = fmt.Sprintf("file\x00%s\x00%s\x00%s\x00%t", m.File.Raw, m.Key, m.At, m.AtMax)
	default:
		return
	}
	m.Sum = short(rule)
}
