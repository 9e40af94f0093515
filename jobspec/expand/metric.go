package expand

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

// A Metric is one number that a job leaves behind: in its log, in a file, or, without
// either, in its GPURUN_RESULT.
type Metric struct {
	Name    string
	Log     *regexp.Regexp // its group, where it last matches a line of the log
	Step    *regexp.Regexp // its group names the step of what Log matches in the same line or later; nil to count
	File    *Text
	Path    string // the file, absolute; only of a rendered job
	Key     string // where in the file: a dotted path, or the name of a column
	At      string // of a file's rows the one in which this column is best; "" for the last
	AtMax   bool   // what is best there
	Goal    Goal
	Percent bool   // people read it as a percentage
	Sum     string // identifies where the value comes from; "" for what the job says itself
}

// A Goal tells which of two values is better.
type Goal string

const (
	NoGoal Goal = ""
	Max    Goal = "max"
	Min    Goal = "min"
)

// SetSum sets Sum: a value that was read by another rule is another value.
func (m *Metric) SetSum() {
	rule := ""
	switch {
	case m.Log != nil:
		rule = "log\x00" + m.Log.String()
	case m.File != nil:
		rule = fmt.Sprintf("file\x00%s\x00%s\x00%s\x00%t", m.File.Raw, m.Key, m.At, m.AtMax)
	default:
		return
	}
	sum := sha256.Sum256([]byte(rule))
	m.Sum = hex.EncodeToString(sum[:4])
}
