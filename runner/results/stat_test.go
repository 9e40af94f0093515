package results

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"gpurun/jobspec"
)

// A reference is the result of numpy and scipy, from testdata/reference.py.
type reference struct {
	Jobs []struct {
		Params    map[string]string
		Acc, Loss any
	}
	OverSeedFold []expected `json:"over_seed_fold"`
	Versus       []expected `json:"versus_fedavg"`
	OverSeed     []expected `json:"over_seed"`
	Summaries    []struct {
		Values []float64
		expected
	}
	Student map[string]float64 `json:"student_975"`
}

type expected struct {
	Dataset, Algorithm, Fold, Metric string
	N                                int
	Mean, SD, SEM, CI95              *float64
}

func loadReference(t *testing.T) (r reference, d Data) {
	t.Helper()
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	d.Metrics = []Metric{{Name: "acc", Goal: jobspec.Max}, {Name: "loss", Goal: jobspec.Min}}
	for i, j := range r.Jobs {
		job := Job{Name: "job-" + strconv.Itoa(i)}
		for _, name := range []string{"dataset", "algorithm", "seed", "fold"} {
			job.Params = append(job.Params, Param{name, j.Params[name]})
		}
		for _, v := range []any{j.Acc, j.Loss} {
			x, is := Number(v)
			job.Values = append(job.Values, Value{x, is})
		}
		d.Jobs = append(d.Jobs, job)
	}
	return r, d
}

// close12 compares a value with a reference; nil stands for NaN.
func close12(got float64, want *float64) bool {
	if want == nil || math.IsNaN(got) {
		return want == nil && math.IsNaN(got)
	}
	return got == *want || math.Abs(got-*want) <= 1e-12*math.Max(math.Abs(*want), math.Abs(got))
}

func (e *expected) check(t *testing.T, what string, s Summary) {
	t.Helper()
	if s.N != e.N || !close12(s.Mean, e.Mean) || !close12(s.SD, e.SD) || !close12(s.Err(SEM), e.SEM) || !close12(s.Err(CI95), e.CI95) {
		text, _ := json.Marshal(e)
		t.Errorf("%s: got n %d, mean %v, sd %v, sem %v, ci95 %v; want %s", what, s.N, s.Mean, s.SD, s.Err(SEM), s.Err(CI95), text)
	}
}

func TestSummariesMatchNumpy(t *testing.T) {
	r, _ := loadReference(t)
	for i, x := range r.Summaries {
		x.check(t, "set "+strconv.Itoa(i), Summarize(x.Values))
	}
	for nu, want := range r.Student {
		n, _ := strconv.Atoi(nu)
		if got := student975(n); !close12(got, &want) {
			t.Errorf("t(%s): got %v, want %v", nu, got, want)
		}
	}
	if len(r.Summaries) < 40 || len(r.Student) < 60 {
		t.Error("the reference has too few values")
	}
}

func TestTablesMatchNumpy(t *testing.T) {
	r, d := loadReference(t)
	for _, row := range []struct {
		name string
		o    Options
		want []expected
	}{
		{"folds within seeds", Options{Over: []string{"seed", "fold"}}, r.OverSeedFold},
		{"seeds", Options{}, r.OverSeed},
		{"pivoted", Options{Over: []string{"seed", "fold"}, Pivot: "algorithm"}, r.OverSeedFold},
		{"differences", Options{Over: []string{"seed", "fold"}, Versus: "algorithm=fedavg"}, r.Versus},
		{"differences between columns", Options{Over: []string{"seed", "fold"}, Pivot: "algorithm", Versus: "algorithm=fedavg"}, r.Versus},
	} {
		t.Run(row.name, func(t *testing.T) {
			table, err := Build(d, row.o)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range row.want {
				c := table.find(e, row.o.Versus != "")
				if c == nil {
					t.Fatalf("no cell for %+v", e)
				}
				e.check(t, e.Dataset+" "+e.Algorithm+" "+e.Fold+" "+e.Metric, c.Summary)
			}
			if len(row.want) < 12 {
				t.Error("the reference has too few values")
			}
		})
	}
}

// find returns the cell for the parameters of a reference value.
func (t *Table) find(e expected, versus bool) *Cell {
	for i := range t.Rows {
		is := map[string]string{}
		for k, p := range t.Params {
			is[p] = t.Rows[i].Values[k]
		}
		for k := range t.Columns {
			c := &t.Columns[k]
			if t.Pivot != "" {
				is[t.Pivot] = c.Value
			}
			if is["dataset"] == e.Dataset && is["algorithm"] == e.Algorithm && is["fold"] == e.Fold && c.Name == e.Metric && c.Versus == versus {
				return &t.Rows[i].Cells[k]
			}
		}
	}
	return nil
}
