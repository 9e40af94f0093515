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

// Clock formats t as a time of day, preceded by the date if t is not on the same day as now.
func Clock(t, now time.Time) string {
	if t, now = t.Local(), now.Local(); t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("15:04")
}
