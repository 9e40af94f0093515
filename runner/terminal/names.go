package terminal

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names lists job names after a head, in at most the given number of lines: "31 succeeded: prep,
// train-s{1..30}". Names that differ in one number form one item. Names that do not fit are counted.
func Names(head string, names []string, width, lines int) []string {
	var rows []string
	row := head + ":"
	for shown := 0; shown < len(names); {
		text, n := item(names[shown:])
		text = " " + CleanText(text)
		rest := 0
		if shown+n < len(names) {
			text += ","
			if len(rows) == lines-1 { // leave room for " and N more"
				rest = Width(fmt.Sprintf(" and %d more", len(names)))
			}
		}
		if Width(row)+Width(text)+rest > width && row != head+":" {
			if len(rows) == lines-1 {
				return append(rows, fmt.Sprintf("%s and %d more", strings.TrimSuffix(row, ","), len(names)-shown))
			}
			rows = append(rows, row)
			row = "   "
		}
		row += text
		shown += n
	}
	return append(rows, row)
}

// item returns the first name and 1. If at least the first three names differ only in one number, it
// returns one item for all of the leading names that do, and their count: "train-s{1..30}", 30.
func item(names []string) (text string, n int) {
	head, tail, ok := aroundNumber(names)
	if !ok {
		return names[0], 1
	}
	var numbers []string
	for _, name := range names {
		name, isHead := strings.CutPrefix(name, head)
		number, isTail := strings.CutSuffix(name, tail)
		if !isHead || !isTail || strings.Trim(number, "0123456789") != "" || number == "" {
			break
		}
		numbers = append(numbers, number)
	}
	if len(numbers) < 3 {
		return names[0], 1
	}
	return head + "{" + ranges(numbers) + "}" + tail, len(numbers)
}

var parts = regexp.MustCompile(`\d+|\D+`)

// aroundNumber finds the single number in which the first two names differ, and returns the text
// around it.
func aroundNumber(names []string) (head, tail string, ok bool) {
	if len(names) < 2 {
		return "", "", false
	}
	a, b := parts.FindAllString(names[0], -1), parts.FindAllString(names[1], -1)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			head, tail = strings.Join(a[:i], ""), strings.Join(a[i+1:], "")
			return head, tail, tail == strings.Join(b[i+1:], "") && isDigit(a[i][0]) && isDigit(b[i][0])
		}
	}
	return "", "", false
}

// maxRanges is how many ranges an item shows.
const maxRanges = 6

// ranges returns "1..30" for consecutive numbers and "1..6,8,10" for numbers with gaps.
func ranges(numbers []string) string {
	var list []string
	for len(numbers) > 0 {
		n := 1
		for n < len(numbers) && follows(numbers[n-1], numbers[n]) {
			n++
		}
		if n < 3 {
			n = 1
			list = append(list, numbers[0])
		} else {
			list = append(list, numbers[0]+".."+numbers[n-1])
		}
		numbers = numbers[n:]
	}
	if n := len(list); n > maxRanges {
		list = append(list[:maxRanges-2], "…", list[n-1])
	}
	return strings.Join(list, ",")
}

// follows reports whether b is a+1 in the same format.
func follows(a, b string) bool {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && y == x+1 && (len(a) == len(b) || b[0] != '0')
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Distinct cuts names to w columns and keeps them distinct. It first drops words that all names
// share, then cuts the middles of names. If a name would still look like another, Distinct cuts it so
// that it starts where the two differ, or else appends a number.
func Distinct(names []string, w int) []string {
	cut, taken := dropSharedWords(names, w), map[string]int{}
	for i, name := range names {
		cut[i] = FitMiddle(cut[i], w)
		if k, is := taken[cut[i]]; is && names[k] != name {
			n := 0
			for at := range name { // at is a rune boundary
				if strings.HasPrefix(names[k], name[:at]) {
					n = at
				}
			}
			cut[i] = FitMiddle("…"+name[n:], w)
		}
		if k, is := taken[cut[i]]; is && names[k] != name {
			mark := fmt.Sprint("~", i+1)
			cut[i] = Fit(cut[i], w-len(mark)) + mark
		}
		taken[cut[i]] = i
	}
	return cut
}

var words = regexp.MustCompile(`[^-_/ ]*[-_/ ]*`)

// dropSharedWords drops words from names that are too wide: words that all names with the same
// number of words have in the same place.
func dropSharedWords(names []string, w int) []string {
	split, out, others := make([][]string, len(names)), slices.Clone(names), map[int]int{}
	for i, name := range names {
		if split[i] = words.FindAllString(name, -1); !slices.Contains(names[:i], name) {
			others[len(split[i])]++
		}
	}
	for i := range names {
		rest := slices.Clone(split[i])
		for k := 0; k < len(rest) && others[len(rest)] > 1 && Width(out[i]) > w; k++ {
			if !slices.ContainsFunc(split, func(s []string) bool { return len(s) == len(rest) && s[k] != split[i][k] }) {
				rest[k] = ""
				out[i] = strings.TrimRight(strings.Join(rest, ""), "-_/ ")
			}
		}
	}
	return out
}
