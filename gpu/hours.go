package gpu

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hours are times of the week: "Mon-Fri 20:00-08:00, Sat-Sun". The zero Hours are always.
type Hours struct {
	text  string
	spans []span
}

// A span recurs on some weekdays. One that ends before it begins ends on the next day.
type span struct {
	days     [7]bool // on which it begins, by time.Weekday
	from, to int     // minutes of the day; a whole day is 0 to 1440
}

const dayMinutes = 24 * 60

// ParseHours parses times of the week, separated by commas: days (Sat, Mon-Fri), times of
// the day (20:00-08:00), or both.
func ParseHours(text string) (Hours, error) {
	h := Hours{text: strings.Join(strings.Fields(text), " ")}
	for _, part := range strings.Split(h.text, ",") {
		s, err := parseSpan(strings.TrimSpace(part))
		if err != nil {
			return Hours{}, err
		}
		h.spans = append(h.spans, s)
	}
	return h, nil
}

func parseSpan(text string) (s span, err error) {
	days, times, both := strings.Cut(text, " ")
	if !both && strings.Contains(text, ":") {
		days, times = "Sun-Sat", text
	}
	if s.days, err = parseDays(days); err != nil || times == "" {
		s.to = dayMinutes
		return s, err
	}
	from, to, ok := strings.Cut(strings.ReplaceAll(times, " ", ""), "-")
	if !ok {
		return s, fmt.Errorf("%q lacks an end", times)
	}
	if s.from, err = parseClock(from); err == nil {
		s.to, err = parseClock(to)
	}
	switch {
	case err == nil && s.from == dayMinutes:
		err = fmt.Errorf("%q begins at the end of a day", times)
	case err == nil && s.from == s.to:
		err = fmt.Errorf("%q ends when it begins", times)
	}
	return s, err
}

// parseDays parses "Sat" or "Mon-Fri", which may go past the end of the week.
func parseDays(text string) (days [7]bool, err error) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, to := weekday(first), weekday(last)
	if from < 0 || to < 0 {
		return days, fmt.Errorf("%q is neither a day (Mon) nor days (Mon-Fri)", text)
	}
	for d := from; ; d = (d + 1) % 7 {
		days[d] = true
		if d == to {
			return days, nil
		}
	}
}

// weekday returns the day that a text names by at least three letters, or -1.
func weekday(text string) int {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if len(text) >= 3 && strings.HasPrefix(strings.ToLower(d.String()), strings.ToLower(text)) {
			return int(d)
		}
	}
	return -1
}

// parseClock parses a time of the day into minutes: 08:00, 8:00, and 24:00 for its end.
func parseClock(text string) (int, error) {
	if text == "24:00" {
		return dayMinutes, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time of the day (20:00)", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// String returns the hours as they were written; "" for always.
func (h Hours) String() string { return h.text }

// or returns the hours of both.
func (h Hours) or(other Hours) Hours {
	both := Hours{other.text, slices.Concat(h.spans, other.spans)}
	if h.text != "" {
		both.text = h.text + ", " + other.text
	}
	return both
}

// Open reports whether t, by the clock of its own time zone, is within the hours.
func (h Hours) Open(t time.Time) bool {
	minute, today := t.Hour()*60+t.Minute(), t.Weekday()
	yesterday := (today + 6) % 7
	return len(h.spans) == 0 || slices.ContainsFunc(h.spans, func(s span) bool {
		if s.from < s.to {
			return s.days[today] && s.from <= minute && minute < s.to
		}
		return s.days[today] && s.from <= minute || s.days[yesterday] && minute < s.to
	})
}

// Opens returns when the hours begin next after t, at which they are not open.
func (h Hours) Opens(t time.Time) (at time.Time) {
	for day := range 9 { // with a day to spare, for clocks that are set forward
		for _, s := range h.spans {
			begin := time.Date(t.Year(), t.Month(), t.Day()+day, s.from/60, s.from%60, 0, 0, t.Location())
			if s.days[begin.Weekday()] && begin.After(t) && (at.IsZero() || begin.Before(at)) {
				at = begin
			}
		}
	}
	return at
}

// Closed describes since the hours are not open at t when they will be, "closed until Mon 20:00";
// "" if they are open.
func (h Hours) Closed(t time.Time) string {
	if h.Open(t) {
		return ""
	}
	at, layout := h.Opens(t), "15:04"
	if at.YearDay() != t.YearDay() || at.Year() != t.Year() {
		layout = "Mon 15:04"
	}
	return "closed until " + at.Format(layout)
}
