package source

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
)

type timeUnit struct {
	name string
	size time.Duration
}

var timeUnits = []timeUnit{
	{"ms", time.Millisecond}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
}

// maxDuration is ten years, longer than any job.
const maxDuration = 10 * 365 * 24 * time.Hour

// ParseDuration parses 90s, 10m, 1h30m, 2d. It refuses bare numbers except 0.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && !(n < 0) {
		return 0, Faultf(fmt.Sprintf("write %ss or %sm", s, s), "%q has no unit", s)
	}
	if strings.HasPrefix(s, "-") {
		return 0, Faultf("try 90s, 10m or 1h30m", "%q is negative", s)
	}
	total := 0.0
	for rest, done := s, false; !done; done = rest == "" {
		tail := strings.TrimLeft(rest, "0123456789.")
		n, err := strconv.ParseFloat(strings.TrimSuffix(rest, tail), 64)
		i := slices.IndexFunc(timeUnits, func(u timeUnit) bool { return strings.HasPrefix(tail, u.name) })
		if err != nil || i < 0 {
			hint := "try 90s, 10m, 1h30m or 2d"
			if d, ok := otherTime(s); ok {
				hint = "try " + FormatDuration(d)
			}
			return 0, Faultf(hint, "invalid duration %q", s)
		}
		total += n * float64(timeUnits[i].size)
		rest = strings.TrimPrefix(tail, timeUnits[i].name)
	}
	if total > float64(maxDuration) {
		return 0, Faultf("", "%q is longer than ten years", s)
	}
	return time.Duration(math.Round(total)), nil
}

// FormatDuration formats d so that ParseDuration can read it back.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	var b strings.Builder
	for _, u := range timeUnits[1:] {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.size
		}
	}
	if d > 0 {
		b.WriteString(strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms")
	}
	return b.String()
}

var (
	// 12:00:00, 30:00, 1-12, 1-12:00, 1-12:00:00
	clockTime = Regexp(`^(?:(\d{1,4})-)?(\d{1,5})(?::(\d{1,2}))?(?::(\d{1,2}))?$`)
	isoTime   = Regexp(`^P(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?$`)
	// 12 hours, 90 min, 1 day
	wordTime = Regexp(`^(\d+(?:\.\d+)?) *(d|h|m|s)(?:ays?|ours?|rs?|in(?:ute)?s?|ec(?:ond)?s?)?$`)
)

// otherTime parses a time as written in Slurm, PBS, ISO 8601 or prose.
func otherTime(s string) (time.Duration, bool) {
	n := func(s string) time.Duration { i, _ := strconv.Atoi(s); return time.Duration(i) }
	if m := isoTime().FindStringSubmatch(strings.ToUpper(s)); m != nil && len(s) > 2 {
		return n(m[1])*24*time.Hour + n(m[2])*time.Hour + n(m[3])*time.Minute + n(m[4])*time.Second, true
	}
	if m := wordTime().FindStringSubmatch(strings.ToLower(s)); m != nil {
		d, err := ParseDuration(m[1] + m[2])
		return d, err == nil
	}
	m := clockTime().FindStringSubmatch(s)
	switch {
	case m == nil, m[1] == "" && m[3] == "":
		return 0, false
	case m[1] != "": // days-hours[:minutes[:seconds]]
		return n(m[1])*24*time.Hour + n(m[2])*time.Hour + n(m[3])*time.Minute + n(m[4])*time.Second, true
	case m[4] != "":
		return n(m[2])*time.Hour + n(m[3])*time.Minute + n(m[4])*time.Second, true
	}
	return n(m[2])*time.Minute + n(m[3])*time.Second, true // as in Slurm
}

// ParseHours parses times of the week: 20:00-08:00, Mon-Fri 20:00-08:00, Sat-Sun.
func ParseHours(s string) (gpu.Hours, error) {
	h, err := gpu.ParseHours(s)
	if err != nil {
		return h, Faultf(`try 20:00-08:00, or "Mon-Fri 20:00-08:00, Sat-Sun"`, "%s", err)
	}
	return h, nil
}
