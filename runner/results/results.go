// Package results makes tables of the metrics of jobs, averaged over their seeds. It computes rows
// and cells, missing values, the best settings, and differences from a baseline. It has no side
// effects: its input is values, and its output is tables as data or text.
package results

import (
	"fmt"
	"strings"

	"gpurun/jobspec"
)

// Data holds the metrics of a batch.
type Data struct {
	Metrics []Metric
	Jobs    []Job // in the batch's order
}

// A Metric is a column of numbers.
type Metric struct {
	Name    string
	Goal    jobspec.Goal
	Percent bool // fractions that users read as percentages
}

// A Job is a job of the batch with its metrics.
type Job struct {
	Name    string
	Entry   Entry
	Kind    uint64 // equal for jobs that run the same program, and so have the same metrics
	Named   []bool // by metric: the job file names it; nil for none
	Params  []Param
	Values  []Value  // by metric; nil for none
	Partial []Value  // by metric: last values of a job that was pruned; never averaged
	State   string   // why values are missing or outdated: "failed", "running", "stale"; "" if the job is done
	Commit  string   // of the code that the job ran; ends in "+" if there were uncommitted changes
	Sim     bool     // the job ran on simulated GPUs
	Why     []string // by metric: why a job that is done has no value; nil if unknown
}

// An Entry is an entry of the job file, which may expand to several jobs.
type Entry struct {
	File string
	Line int
	Name string // as written: train-{dataset}-s{seed}
}

// A Param is a parameter, or another property that tells jobs apart.
type Param struct{ Name, Value string }

// A Value is a measured value, which may be NaN or infinite.
type Value struct {
	X  float64
	Is bool // the value exists
}

// Options select what a table shows.
type Options struct {
	Metrics []string // metrics to show; nil for all
	By      []string // parameters that identify the rows; nil for all that vary
	Over    []string // parameters to average over, the outermost first; nil for the seed, if there is one
	Best    string   // metric by which the best setting of all other parameters is chosen
	Pivot   string   // parameter whose values become columns
	Within  []string // mark the best among rows that agree in these; nil for the data set
	Versus  string   // PARAM=VALUE: baseline for paired differences
	Where   []string // PARAM=VALUE,… or PARAM!=VALUE,…: only jobs with, or without, these values
	Err     Err
	Sort    string // metric or parameter to sort the rows by; a leading "-" reverses the order
	Raw     bool   // a row for each job; uses only Metrics, Where and Sort
}

// A filter selects jobs by a parameter.
type filter struct {
	name   string
	values []string
	not    bool
}

// An Err selects the number after ±.
type Err string

// Values of Err.
const (
	SD   Err = "sd"
	SEM  Err = "sem"
	CI95 Err = "ci95"
)

// Words describes the number after ±.
func (e Err) Words() string {
	switch e {
	case SEM:
		return "standard error of the mean"
	case CI95:
		return "95% confidence interval (Student's t)"
	}
	return "sample standard deviation (n−1)"
}

// Seeds are the names of parameters to average over by default. The first one that the jobs have is
// used.
var Seeds = []string{"seed", "random_seed", "rep", "repeat", "trial", "run"}

// A Refusal means that an option does not fit the data, or that there is no data.
type Refusal struct {
	Text, Hint string
	Empty      bool // no job has a metric yet
}

func (r *Refusal) Error() string { return r.Text }

func refuse(hint, format string, args ...any) *Refusal {
	return &Refusal{Text: fmt.Sprintf(format, args...), Hint: hint}
}

// parseFilters parses filters such as dataset=svhn,cifar10,algorithm!=ours. A value without a name
// belongs to the preceding name.
func parseFilters(texts []string) ([]filter, error) {
	var list []filter
	for _, text := range texts {
		first := len(list)
		for part := range strings.SplitSeq(text, ",") {
			name, value, named := strings.Cut(part, "=")
			if !named && len(list) == first {
				return nil, refuse("write dataset=svhn, or dataset!=svhn", "%q is not PARAM=VALUE or PARAM!=VALUE", text)
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
