package state

import (
	"encoding/json"
	"math"
	"slices"
	"sort"
)

// A Point is a value that a job reported at one step. Value is +Inf for NaN and both infinities.
type Point struct{ Step, Value float64 }

// A Curve is a series of points in ascending order of their steps. It leaves out points that affect
// neither the best value up to any step, nor the last step, nor which values are finite.
type Curve []Point

// mostPoints is the maximum number of points of a curve in a ledger line.
const mostPoints = 1000

// Add returns the curve with points added. If a job returns to an earlier step, as after a restart
// from a checkpoint, its new points replace all points from that step on.
func (c Curve) Add(points ...Point) Curve {
	c = slices.Clone(c)
	for _, p := range points {
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			p.Value = math.Inf(1)
		}
		c = append(c[:sort.Search(len(c), func(i int) bool { return c[i].Step >= p.Step })], p)
	}
	var thin Curve
	least, most := math.Inf(1), math.Inf(-1)
	for i, p := range c {
		news := p.Finite() && (p.Value < least || p.Value > most)
		if news {
			least, most = min(least, p.Value), max(most, p.Value)
		}
		if news || i == 0 || i == len(c)-1 || c[i-1].Finite() != p.Finite() || c[i+1].Finite() != p.Finite() {
			thin = append(thin, p)
		}
	}
	if n := len(thin) - 2; n >= mostPoints {
		from, apart := thin[0].Step, (thin[n].Step-thin[0].Step)/(mostPoints/2)
		kept := thin[:0]
		for i, p := range thin {
			if i >= n || p.Step >= from {
				kept, from = append(kept, p), p.Step+apart
			}
		}
		return kept
	}
	return thin
}

// Last returns the last step, or 0 for an empty curve.
func (c Curve) Last() float64 {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].Step
}

// Broken reports whether the last two values are not finite.
func (c Curve) Broken() bool {
	n := len(c)
	return n > 1 && !c[n-1].Finite() && !c[n-2].Finite()
}

// Finite reports whether the value is a number.
func (p Point) Finite() bool { return !math.IsInf(p.Value, 0) }

// Best returns the best value up to a step, if there is one.
func (c Curve) Best(step float64, highest bool) (best float64, ok bool) {
	for _, p := range c {
		if p.Step > step {
			break
		}
		if p.Finite() && (!ok || (p.Value > best) == highest) {
			best, ok = p.Value, true
		}
	}
	return best, ok
}

// MarshalJSON implements json.Marshaler: [1, 0.5], or [1, null].
func (p Point) MarshalJSON() ([]byte, error) {
	pair := []any{p.Step, nil}
	if p.Finite() {
		pair[1] = p.Value
	}
	return json.Marshal(pair)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Point) UnmarshalJSON(text []byte) error {
	pair := [2]float64{1: math.Inf(1)} // null leaves the default, +Inf
	err := json.Unmarshal(text, &pair)
	*p = Point{pair[0], pair[1]}
	return err
}
