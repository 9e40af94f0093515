package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
)

// memoryFlag is a size on the command line; a bare number is MiB.
type memoryFlag gpu.Bytes

// UnmarshalText reads it.
func (m *memoryFlag) UnmarshalText(text []byte) error {
	s := string(text)
	if _, err := strconv.ParseUint(s, 10, 32); err == nil {
		s += "MiB"
	}
	b, err := gpu.ParseBytes(s)
	*m = memoryFlag(b)
	return err
}

// timeFlag is a duration on the command line; a bare number is seconds.
type timeFlag time.Duration

// UnmarshalText reads it.
func (t *timeFlag) UnmarshalText(text []byte) error {
	s := string(text)
	bad := fmt.Errorf("invalid time %q (try 90s, 10m, 1h30m or 2d)", s)
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		*t = timeFlag(time.Duration(n) * time.Second)
		return nil
	}
	var days time.Duration
	if d, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(d, 10, 16)
		if err != nil {
			return bad
		}
		days, s = time.Duration(n)*24*time.Hour, rest
		if s == "" {
			s = "0s"
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return bad
	}
	*t = timeFlag(days + d)
	return nil
}

// countFlag is a number of GPUs: "2", or "2-4" for at least 2 and up to 4.
type countFlag struct{ min, max int }

// UnmarshalText reads it.
func (c *countFlag) UnmarshalText(text []byte) error {
	lo, hi, isRange := strings.Cut(string(text), "-")
	a, err1 := strconv.ParseUint(lo, 10, 16)
	b, err2 := a, error(nil)
	if isRange {
		b, err2 = strconv.ParseUint(hi, 10, 16)
	}
	if err1 != nil || err2 != nil || b < a {
		return fmt.Errorf("invalid number of GPUs %q (try 2 or 2-4)", text)
	}
	c.min, c.max = int(a), int(b)
	return nil
}

// percentFlag is a number from 0 to 100.
type percentFlag int

// UnmarshalText reads it.
func (p *percentFlag) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(strings.TrimSuffix(string(text), "%"), 10, 16)
	if err != nil || n > 100 {
		return fmt.Errorf("invalid percentage %q (give 0 to 100)", text)
	}
	*p = percentFlag(n)
	return nil
}
