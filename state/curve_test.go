package state

import (
	"encoding/json"
	"math"
	"math/rand"
	"reflect"
	"testing"
)

func TestAddRewindsAndThinsCurve(t *testing.T) {
	nan := math.NaN()
	inf := math.Inf(1)
	for _, x := range []struct {
		name      string
		add, want Curve
	}{
		{"improvements and the last point", Curve{{1, 0.5}, {2, 0.4}, {3, 0.45}, {4, 0.6}, {5, 0.55}, {6, 0.58}}, Curve{{1, 0.5}, {2, 0.4}, {4, 0.6}, {6, 0.58}}},
		{"back to an earlier step", Curve{{1, 0.5}, {2, 0.6}, {3, 0.7}, {2, 0.4}}, Curve{{1, 0.5}, {2, 0.4}}},
		{"repeated step", Curve{{1, 0.5}, {1, 0.3}}, Curve{{1, 0.3}}},
		{"NaN between numbers", Curve{{1, 0.5}, {2, nan}, {3, 0.5}, {4, nan}}, Curve{{1, 0.5}, {2, inf}, {3, 0.5}, {4, inf}}},
		{"several NaN", Curve{{1, 0.5}, {2, nan}, {3, math.Inf(-1)}, {4, nan}, {5, nan}}, Curve{{1, 0.5}, {2, inf}, {5, inf}}},
	} {
		if got := (Curve{}).Add(x.add...); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

func TestThinnedCurveGivesTheSameAnswers(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 2000 {
		var all, whole, parts Curve
		step := 0.0
		for range 1 + r.Intn(30) {
			if step++; r.Intn(10) == 0 {
				step = float64(1 + r.Intn(int(step)+1))
			}
			v := float64(r.Intn(8))
			if r.Intn(4) == 0 {
				v = math.NaN()
			}
			for len(all) > 0 && all[len(all)-1].Step >= step {
				all = all[:len(all)-1]
			}
			p := Point{step, v}
			if math.IsNaN(v) {
				p.Value = math.Inf(1)
			}
			all, whole, parts = append(all, p), append(whole, Point{step, v}), parts.Add(Point{step, v})
		}
		// A rewind may reach points that an earlier call of Add dropped, so the curves may differ. But
		// their answers must agree.
		thinned(t, Curve{}.Add(whole...), all)
		thinned(t, parts, all)
	}
}

// thinned fails if a curve's answers differ from those of the complete curve.
func thinned(t *testing.T, whole, all Curve) {
	t.Helper()
	for s := 0.0; s < 40; s++ {
		for _, highest := range []bool{false, true} {
			a, aok := all.Best(s, highest)
			if b, bok := whole.Best(s, highest); a != b || aok != bok {
				t.Fatalf("best up to step %v: thinned curve %v has %v, complete curve %v has %v", s, whole, b, all, a)
			}
		}
	}
	if whole.Last() != all.Last() || whole.Broken() != all.Broken() {
		t.Fatalf("Last or Broken of %v differ from those of %v", whole, all)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var again Curve
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again, whole) {
		t.Fatalf("%s is read as %v, want %v", text, again, whole)
	}
}

func TestCurveIsBounded(t *testing.T) {
	var c Curve
	for i := range 20_000 {
		c = c.Add(Point{float64(i), float64(i)})
	}
	text, _ := json.Marshal(c)
	if v, _ := c.Best(10_000, true); len(c) > mostPoints || len(text) > 32<<10 || c.Last() != 19_999 || v < 9_900 {
		t.Errorf("%d points (limit %d), %d bytes, last %v, best up to half %v", len(c), mostPoints, len(text), c.Last(), v)
	}
}
