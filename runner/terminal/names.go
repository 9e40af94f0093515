package terminal

import (
	"fmt"
	"strconv"
	"strings"
)

// Names lists jobs after a head that counts them, in at most the given number of lines:
// "31 succeeded: prep, train-s{1..30}". Names that differ in one number form one item;
// what does not fit is counted.
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

// An item is one name, or n names that differ in one number.
type item struct {
	text string
	n    int
}

// compact joins successive names that differ in one number.
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

// run returns how many names from the first on differ in the same number, and its place
// in the first.
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

// differ finds the one number in which two names differ, and returns its place in the first.
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

// maxRanges bounds how many ranges of an item are shown.
const maxRanges = 6

// numbersOf returns "1..30" for consecutive numbers, "1..6,8,10" if some are missing.
func numbersOf(names []string, from, tail int) string {
	var ranges []string
	for i := 0; i < len(names); {
		k := i + 1
		for k < len(names) && follows(number(names[k-1], from, tail), number(names[k], from, tail)) {
			k++
		}
		if k-i < 3 {
			k = i + 1
		}
		text := number(names[i], from, tail)
		if k-i > 1 {
			text += ".." + number(names[k-1], from, tail)
		}
		ranges = append(ranges, text)
		i = k
	}
	if n := len(ranges); n > maxRanges {
		ranges = append(ranges[:maxRanges-2], "…", ranges[n-1])
	}
	return strings.Join(ranges, ",")
}

func number(name string, from, tail int) string { return name[from : len(name)-tail] }

// follows reports whether b is the number after a, written the same way.
func follows(a, b string) bool {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && y == x+1 && (len(a) == len(b) || b[0] != '0')
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
