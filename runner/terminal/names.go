package terminal

import (
	"fmt"
	"strconv"
	"strings"
)

// Names lists jobs below a few words that count them, in at most so many lines:
// "31 succeeded: prep, train-s{1..30}". Names that differ in one number are one
// item; what has no room is counted.
func Names(head string, names []string, width, lines int) []string {
	items := compact(names)
	var rows []string
	row, shown := head+":", 0
	for i, it := range items {
		text := " " + CleanText(it.text)
		last := i == len(items)-1
		if !last {
			text += ","
		}
		rest := 0
		if len(rows) == lines-1 && !last { // room for what is left out
			rest = Width(fmt.Sprintf(" and %d more", len(names)))
		}
		if Width(row)+Width(text)+rest > width && row != head+":" {
			if len(rows) == lines-1 {
				return append(rows, fmt.Sprintf("%s and %d more", strings.TrimSuffix(row, ","), len(names)-shown))
			}
			rows = append(rows, row)
			row = "   "
		}
		row += text
		shown += it.n
	}
	return append(rows, row)
}

// An item is one name, or n that differ in one number.
type item struct {
	text string
	n    int
}

// compact puts names that follow each other and differ in one number together.
func compact(names []string) []item {
	var items []item
	for i := 0; i < len(names); {
		n, from, to := run(names[i:])
		if n < 3 {
			items = append(items, item{names[i], 1})
			i++
			continue
		}
		name := names[i]
		items = append(items, item{name[:from] + "{" + numbersOf(names[i:i+n], from, len(name)-to) + "}" + name[to:], n})
		i += n
	}
	return items
}

// run is how many names from the first on differ in one and the same number, and
// where that stands in the first.
func run(names []string) (n, from, to int) {
	if len(names) < 2 {
		return 1, 0, 0
	}
	from, to, ok := differ(names[0], names[1])
	if !ok {
		return 1, 0, 0
	}
	tail := names[0][to:]
	n = 1
	for n < len(names) && strings.HasPrefix(names[n], names[0][:from]) && strings.HasSuffix(names[n], tail) &&
		len(names[n]) > from+len(tail) && isNumber(names[n][from:len(names[n])-len(tail)]) {
		n++
	}
	return n, from, to
}

// differ finds the one number in which two names differ: its place in the first.
func differ(a, b string) (from, to int, ok bool) {
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	for from > 0 && isDigit(a[from-1]) {
		from--
	}
	to = from
	for to < len(a) && isDigit(a[to]) {
		to++
	}
	end := from
	for end < len(b) && isDigit(b[end]) {
		end++
	}
	return from, to, to > from && end > from && a[to:] == b[end:]
}

// maxNumbers bounds the numbers of one item that are told one by one.
const maxNumbers = 8

// numbersOf is "1..30" where the numbers follow each other, else "1,3,7".
func numbersOf(names []string, from, tail int) string {
	var values []string
	follow := true
	for i, name := range names {
		v := name[from : len(name)-tail]
		values = append(values, v)
		if i > 0 {
			a, err1 := strconv.Atoi(values[i-1])
			b, err2 := strconv.Atoi(v)
			follow = follow && err1 == nil && err2 == nil && b == a+1 && (len(v) == len(values[i-1]) || v[0] != '0')
		}
	}
	if follow {
		return values[0] + ".." + values[len(values)-1]
	}
	if n := len(values); n > maxNumbers {
		values = append(values[:maxNumbers-2], "…", values[n-1])
	}
	return strings.Join(values, ",")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNumber(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}
