package forecast

import (
	"regexp"
	"strconv"
)

// Progress in a log: an epoch or step, else a count as in progress bars, else a percentage.
var (
	epochs = regexp.MustCompile(`(?i)\b(?:epoch|ep|round|step|iter(?:ation)?)s?\b[\s:=\[(#]*(\d+)\s*(?:/|of)\s*(\d+)`)
	counts = regexp.MustCompile(`(?:^|[\s|\[(])(\d+)/(\d+)(?:[\s\])|,:]|$)`)
	shares = regexp.MustCompile(`(?:^|[\s|(\[])(\d{1,3}(?:\.\d+)?) ?%`)
)

// Progress returns the progress at the end of a log, from 0 to 1, and the total number of steps, or
// 0 if the log does not count them. ok is false if the log shows no progress. The last match of the
// coarsest kind wins, because each epoch may have its own progress bar.
func Progress(log string) (done float64, steps int, ok bool) {
	number := func(s string) float64 {
		x, _ := strconv.ParseFloat(s, 64)
		return x
	}
	for _, re := range []*regexp.Regexp{epochs, counts} {
		all := re.FindAllStringSubmatch(log, -1)
		for i := len(all) - 1; i >= 0; i-- {
			if n, m := number(all[i][1]), number(all[i][2]); m > 1 && n <= m {
				return n / m, int(m), true
			}
		}
	}
	all := shares.FindAllStringSubmatch(log, -1)
	for i := len(all) - 1; i >= 0; i-- {
		if p := number(all[i][1]); p <= 100 {
			return p / 100, 0, true
		}
	}
	return 0, 0, false
}
