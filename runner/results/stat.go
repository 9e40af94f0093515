package results

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Summary holds statistics of some values.
type Summary struct {
	N    int
	Mean float64
	SD   float64 // sample standard deviation (n−1); NaN for n < 2
}

// Summarize returns the mean and sample standard deviation of finite values.
func Summarize(x []float64) Summary {
	if len(x) == 0 {
		return Summary{0, math.NaN(), math.NaN()}
	}
	mean, sd := stat.MeanStdDev(x, nil)
	if len(x) == 1 {
		sd = math.NaN()
	} else if !slices.ContainsFunc(x, func(v float64) bool { return v != x[0] }) {
		mean, sd = x[0], 0 // avoids rounding errors
	}
	return Summary{len(x), mean, sd}
}

// Err returns the number after ±: NaN for n < 2.
func (s Summary) Err(e Err) float64 {
	switch e {
	case SEM:
		return s.SD / math.Sqrt(float64(s.N))
	case CI95:
		if s.N < 2 {
			return math.NaN()
		}
		return student975(s.N-1) * s.SD / math.Sqrt(float64(s.N))
	}
	return s.SD
}

// student975 returns the 0.975 quantile of Student's t distribution, accurate to 1e-12 for any
// realistic number of seeds.
func student975(nu int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(nu)}.Quantile(0.975)
}

// finite reports whether a value can be averaged.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
