package state

import (
	"fmt"
	"strings"
	"time"
)

// Count returns "1 job" or "3 jobs".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, is := strings.CutSuffix(noun, "y"); is {
		noun = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Spell formats a duration for people: "90 s", "7 min", "3 h 5 min".
func Spell(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}
