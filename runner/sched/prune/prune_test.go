package prune

import (
	"math"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/state"
)

// curve returns a curve with these values at steps 1, 2, …
func curve(values ...float64) (c state.Curve) {
	for i, v := range values {
		c = c.Add(state.Point{Step: float64(i + 1), Value: v})
	}
	return c
}

func TestWhyExplainsPruning(t *testing.T) {
	nan := math.NaN()
	others := func(at ...float64) (list []state.Curve) {
		for _, v := range at {
			list = append(list, curve(v/2, v, v/2))
		}
		return list
	}
	five := others(0.5, 0.6, 0.7, 0.8, 0.9)
	most := jobspec.Prune{Metric: "acc", Goal: jobspec.Max, After: 2, Keep: 0.7, Min: 5}
	least := most
	least.Goal = jobspec.Min
	for _, x := range []struct {
		name   string
		rule   jobspec.Prune
		own    state.Curve
		others []state.Curve
		want   string // part of the reason; "" for none
	}{
		{"behind", most, curve(0.3, 0.55), five, "best acc was 0.55 up to step 2, where 4 of 5 others had 0.6 or better"},
		{"as good as the worst that is kept", most, curve(0.3, 0.6), five, ""},
		{"better than some", most, curve(0.3, 0.65), five, ""},
		{"its best counts, not its last", most, curve(0.65, 0.1), five, ""},
		{"before the first step", most, curve(0.1), five, ""},
		{"too few others", most, curve(0.1, 0.1), five[1:], ""},
		{"ahead of the others: their latest step counts", most, curve(0.1, 0.1, 0.1, 0.1), five, "best acc was 0.1 up to step 4, and 4 of 5 others had 0.6 or better by step 3"},
		{"ahead of the others, and better than they were", most, curve(0.1, 0.1, 0.1, 0.65), five, ""},
		{"no others", most, curve(0.1, 0.1), others(0.5, 0.6, 0.7, 0.8)[:0], ""},
		{"the last of its group: those pruned before it count", most, curve(0.1, 0.1, 0.1), []state.Curve{curve(0.5, 0.6), curve(0.5, 0.6), curve(0.5, 0.6), curve(0.5, 0.6), curve(0.7, 0.8, 0.9)}, "and 4 of 5 others had 0.6 or better by step 2"},
		{"later values of others do not count", most, curve(0.1, 0.65), append(others(0.6, 0.6, 0.6, 0.6), curve(0.1, 0.1, 0.9)), ""},
		{"other steps: the last step of others before it counts", most, state.Curve{{Step: 2.5, Value: 0.55}}, five, "0.55 up to step 2.5"},
		{"other steps: curves that begin later do not count", most, curve(0.1, 0.1), append(five[1:], state.Curve{{Step: 10, Value: 0.9}}), ""},
		{"lowest is best, behind", least, curve(0.95, 0.85), five, "best acc was 0.85 up to step 2, where 4 of 5 others had"},
		{"lowest is best, ahead", least, curve(0.95, 0.2), five, ""},
		{"nan once", most, curve(0.6, nan), five, ""},
		{"nan twice", most, curve(0.9, nan, nan), nil, "acc was NaN or infinite at two steps in a row, up to step 3"},
		{"nan twice before the first step", most, curve(nan, math.Inf(-1)), nil, "two steps in a row"},
		{"nan twice, but not in a row", most, curve(0.9, nan, 0.9, nan), nil, ""},
		{"nothing but nan among others", most, curve(0.1, 0.1), append(five[1:], curve(nan, nan)), ""},
		{"nothing reported", most, nil, five, ""},
		{"keep is exact", jobspec.Prune{Metric: "acc", Goal: jobspec.Max, Keep: 0.7, Min: 1}, curve(0.35), others(1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1), ""},
	} {
		if got := Why(x.rule, x.own, x.others); (x.want == "") != (got == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
}
