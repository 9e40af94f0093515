package jobspec

import "strconv"

// DrawShuffleSeed gives a shuffled batch whose seed nobody named the one that draw
// returns, so that no two runs favor the same jobs. It is called before the batch is
// scheduled, and reports whether jobs are shuffled at all.
func (s *Settings) DrawShuffleSeed(draw func() int64) bool {
	if s.Order != "shuffle" {
		return false
	}
	for i := range s.Sources {
		if from := &s.Sources[i]; from.Name == "shuffle_seed" && from.Source == "default" {
			s.ShuffleSeed = draw()
			from.Value, from.Source = strconv.FormatInt(s.ShuffleSeed, 10), "drawn for this run"
		}
	}
	return true
}

// ShuffleSeedNamed reports whether somebody named the seed.
func (s *Settings) ShuffleSeedNamed() bool {
	for _, from := range s.Sources {
		if from.Name == "shuffle_seed" {
			return from.Source != "default"
		}
	}
	return false
}
