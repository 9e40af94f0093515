package gpu

import (
	"testing"
	"time"
)

func TestHoursClosedUntil(t *testing.T) {
	berlin := time.FixedZone("Berlin", 3600)
	at := func(s string) time.Time { // in March 2026, which starts on a Sunday
		when, err := time.ParseInLocation("2 15:04", s, berlin)
		if err != nil {
			t.Fatal(err)
		}
		return when.AddDate(2026, 2, 0)
	}
	tests := []struct{ hours, now, want string }{
		{"20:00-08:00", "2 19:59", "closed until 20:00"},
		{"20:00-08:00", "2 20:00", ""},
		{"20:00-08:00", "3 07:59", ""},
		{"20:00-08:00", "3 08:00", "closed until 20:00"},
		{"Mon-Fri 20:00-08:00, Sat-Sun", "7 07:59", ""}, // Saturday
		{"Mon-Fri 20:00-08:00, Sat-Sun", "8 23:59", ""},
		{"Mon-Fri 20:00-08:00, Sat-Sun", "9 00:00", "closed until 20:00"}, // Monday: no night starts on Sunday
		{"Mon-Fri 20:00-08:00", "7 08:00", "closed until Mon 20:00"},
		{"mon 22:00 - 24:00", "2 23:59", ""},
		{"mon 22:00 - 24:00", "3 00:00", "closed until Mon 22:00"},
		{"Fri-Mon", "3 12:00", "closed until Fri 00:00"},
		{"Fri-Mon", "2 23:59", ""},
		{"Saturday", "7 12:00", ""},
		{"Mon,Wed 20:00-08:00", "2 12:00", "closed until 20:00"},
		{"Mon,Wed 20:00-08:00,Sat", "5 08:00", "closed until Sat 00:00"},
		{"Mon, Wed 20:00-08:00", "2 12:00", ""},
		{"Sat 8:00-9:00", "7 08:30", ""},
	}
	for _, tt := range tests {
		h, err := ParseHours(tt.hours)
		if err != nil {
			t.Errorf("%s: %v", tt.hours, err)
			continue
		}
		if got := h.Closed(at(tt.now)); got != tt.want {
			t.Errorf("%s on %s: %q, want %q", tt.hours, at(tt.now).Format("Mon 15:04"), got, tt.want)
		}
	}
	if got := (Hours{}).Closed(at("2 12:00")); got != "" {
		t.Errorf("without hours: got %q, want open", got)
	}
}

// Opens must return the first open minute, even when clocks change.
func TestOpensIsTheFirstOpenMinute(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	for _, text := range []string{"20:00-08:00", "Sun 01:30-02:30", "Sun 03:00-04:00", "Mon-Fri 20:00-08:00, Sat-Sun", "Wed"} {
		h, err := ParseHours(text)
		if err != nil {
			t.Fatal(err)
		}
		// These are the weeks around both clock changes.
		for _, start := range []time.Time{time.Date(2026, 3, 25, 0, 0, 0, 0, berlin), time.Date(2026, 10, 21, 0, 0, 0, 0, berlin)} {
			for now := start; now.Before(start.AddDate(0, 0, 7)); now = now.Add(30 * time.Minute) {
				if h.Open(now) {
					continue
				}
				opens := h.Opens(now)
				if !opens.After(now) || !h.Open(opens) {
					t.Errorf("%s: Opens(%s) = %s, which is not later, or closed", text, now, opens)
				}
				if last := opens.Add(-time.Minute); last.After(now) && h.Open(last) {
					t.Errorf("%s is already open before Opens = %s", text, opens)
				}
			}
		}
	}
}

func TestInvalidHoursAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                  `invalid day "" (try Mon or Mon-Fri)`,
		"always":            `invalid day "always" (try Mon or Mon-Fri)`,
		"20-8":              `invalid day "20-8" (try Mon or Mon-Fri)`,
		"20:00":             `"20:00" has no end time`,
		"20:00-25:00":       `invalid time "25:00" (try 20:00)`,
		"20:00-20:00":       `"20:00-20:00" starts and ends at the same time`,
		"24:00-08:00":       `"24:00-08:00" starts at the end of a day`,
		"Mon-Fri 20":        `"20" has no end time`,
		"Mon-Frei":          `invalid day "Mon-Frei" (try Mon or Mon-Fri)`,
		"Mon 20:00-08:00,":  `invalid day "" (try Mon or Mon-Fri)`,
		"Mo 20:00-08:00":    `invalid day "Mo" (try Mon or Mon-Fri)`,
		"20:00-08:00 daily": `invalid day "20:00-08:00" (try Mon or Mon-Fri)`,
	} {
		if _, err := ParseHours(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
