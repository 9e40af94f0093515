package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A table is the output of the bench.
type table []row

type row struct{ figure, ours, peer, ratio, bar, verdict string }

// A series has one program's measurements, round by round.
type series []float64

// percentile returns the smallest value that p percent of s do not exceed.
func (s series) percentile(p int) float64 {
	return slices.Sorted(slices.Values(s))[max(0, (len(s)*p+99)/100-1)]
}

func (s series) median() float64 { return s.percentile(50) }

// compare adds a row with the median of the rounds' ratios, which must be ≥ or ≤ bar. Without a
// bar, there is no verdict.
func (t *table) compare(figure, format string, ours series, peer string, theirs series, sign string, bar float64) {
	if len(ours) == 0 || len(theirs) == 0 {
		*t = append(*t, row{figure: figure, peer: peer + " is not installed", verdict: "not measured"})
		return
	}
	ratios := make(series, len(ours))
	for i := range ratios {
		ratios[i] = ours[i] / theirs[i]
	}
	ratio := ratios.median()
	r := row{figure: figure, ours: fmt.Sprintf(format, ours.median()), ratio: fmt.Sprintf("%.2f", ratio)}
	r.peer = peer + " " + fmt.Sprintf(format, theirs.median())
	if bar > 0 {
		r.bar, r.verdict = fmt.Sprintf("%s %.3g", sign, bar), verdict(sign == "≥" && ratio >= bar || sign == "≤" && ratio <= bar)
	}
	*t = append(*t, r)
}

// under adds a row for a value that has no peer and must be less than bar.
func (t *table) under(figure, format string, value, bar float64, unit string) {
	*t = append(*t, row{figure, fmt.Sprintf(format, value), "", "", fmt.Sprintf("< %g%s", bar, unit), verdict(value < bar)})
}

// over adds a row for a value that has no peer and must be at least bar.
func (t *table) over(figure, format string, value, bar float64, unit string) {
	*t = append(*t, row{figure, fmt.Sprintf(format, value), "", "", fmt.Sprintf("≥ %g%s", bar, unit), verdict(value >= bar)})
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// print prints the table and reports whether every bar is met.
func (t table) print(to io.Writer) (met bool) {
	met = true
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tours\tpeer\tratio\tbar\t")
	for _, r := range t {
		fmt.Fprintln(w, strings.Join([]string{r.figure, r.ours, r.peer, r.ratio, r.bar, r.verdict}, "\t"))
		met = met && (r.verdict == "met" || r.verdict == "")
	}
	w.Flush()
	return met
}
