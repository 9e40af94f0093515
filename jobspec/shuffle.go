package jobspec

import "strconv"

// DrawShuffleSeed sets the seed of a shuffled batch to the result of draw unless the user
// set one, so that no two runs favor the same jobs. It must be called before the batch is
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

// ShuffleSeedNamed reports whether the user set the seed.
func (s *Settings) ShuffleSeedNamed() bool {
	for _, from := range s.Sources {
		if from.Name == "shuffle_seed" {
			return from.Source != "default"
		}
	}
	return false
}
