// Package results makes tables of what jobs have measured, averaged over their seeds: the
// rows and cells, what is missing and why, which is best, and what differs from a baseline.
// It is pure: it gets the values, and returns tables as data or as text.
package results

import (
	"fmt"
	"strings"

	"gpurun/jobspec"
)

// Data is what a batch has measured.
type Data struct {
	Metrics []Metric
	Jobs    []Job // in the batch's order
}

// A Metric is a column of numbers.
type Metric struct {
	Name    string
	Goal    jobspec.Goal
	Percent bool // fractions that people read as percentages
}

// A Job is one job and what it measured.
type Job struct {
	Name    string
	Entry   Entry
	Kind    uint64 // the same for jobs that run the same program, and so measure the same
	Named   []bool // by metric, whether the job file names it; nil for none
	Params  []Param
	Values  []Value  // by metric; nil for none
	Partial []Value  // by metric, what one had measured that was stopped early; averaged never
	State   string   // why it has none, or none that is up to date: "failed", "running", "stale"; "" if it is done
	Commit  string   // of the code it ran with, "+" if that had been changed
	Sim     bool     // it ran on simulated GPUs
	Why     []string // by metric, why a job that is done has no value; nil if that is unknown
}

// An Entry is the job of a file that a job was expanded from.
type Entry struct {
	File string
	Line int
	Name string // as written: train-{dataset}-s{seed}
}

// A Param is a parameter, or whatever else tells one job from another.
type Param struct{ Name, Value string }

// A Value is what a job measured, which may be NaN or infinite.
type Value struct {
	X  float64
	Is bool // there is one
}

// Options choose what a table shows.
type Options struct {
	Metrics []string // to show; nil for all
	By      []string // parameters that make the rows; nil for all that vary
	Over    []string // parameters to average over, the outermost first; nil for a seed, if there is one
	Best    string   // metric by which to choose among settings of all other parameters
	Pivot   string   // parameter whose values are columns
	Within  []string // mark the best among the rows that agree in these; nil: among those that differ in the last parameter only
	Versus  string   // PARAM=VALUE: baseline for paired differences
	Where   []string // PARAM=VALUE,… or PARAM!=VALUE,…: only jobs that have, or lack, one of the values
	Err     Err
	Sort    string // metric or parameter to sort the rows by; "-" before it reverses
	Raw     bool   // a row for each job; of the others, only Metrics, Where and Sort count
}

// A filter keeps jobs by a parameter.
type filter struct {
	name   string
	values []string
	not    bool
}

// An Err is what stands behind ±.
type Err string

// What can stand behind ±.
const (
	SD   Err = "sd"
	SEM  Err = "sem"
	CI95 Err = "ci95"
)

// Words says what ± is.
func (e Err) Words() string {
	switch e {
	case SEM:
		return "standard error of the mean"
	case CI95:
		return "95% confidence interval (Student's t)"
	}
	return "sample standard deviation (n−1)"
}

// Seeds are the parameters that are averaged over unless others are named: the first of
// them that jobs have.
var Seeds = []string{"seed", "random_seed", "rep", "repeat", "trial", "run"}

// A Refusal is an option that does not fit the data.
type Refusal struct{ Text, Hint string }

func (r *Refusal) Error() string { return r.Text }

func refuse(hint, format string, args ...any) *Refusal {
	return &Refusal{fmt.Sprintf(format, args...), hint}
}

// parseFilters reads dataset=svhn,cifar10,algorithm!=ours: a value without a name belongs to
// the name before it.
func parseFilters(texts []string) ([]filter, error) {
	var list []filter
	for _, text := range texts {
		first := len(list)
		for part := range strings.SplitSeq(text, ",") {
			name, value, named := strings.Cut(part, "=")
			if !named && len(list) == first {
				return nil, refuse("write dataset=svhn, or dataset!=svhn", "%q does not name a parameter and its value", text)
			}
			if !named {
				last := &list[len(list)-1]
				last.values = append(last.values, strings.TrimSpace(part))
				continue
			}
			name, not := strings.CutSuffix(strings.TrimSpace(name), "!")
			list = append(list, filter{strings.TrimSpace(name), []string{strings.TrimSpace(value)}, not})
		}
	}
	return list, nil
}
