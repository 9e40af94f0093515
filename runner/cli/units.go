package cli

import (
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/source"
)

// withUnit adds a unit to a bare number, which job files do not accept.
func withUnit(text []byte, unit string) string {
	if _, err := strconv.ParseUint(string(text), 10, 31); err == nil {
		return string(text) + unit
	}
	return string(text)
}

// memoryFlag is a size. A number without a unit is in MiB.
type memoryFlag gpu.Bytes

func (m *memoryFlag) UnmarshalText(text []byte) error {
	b, err := source.ParseSize(withUnit(text, "MiB"))
	*m = memoryFlag(b)
	return err
}

// timeFlag is a duration. A number without a unit is in seconds.
type timeFlag time.Duration

func (t *timeFlag) UnmarshalText(text []byte) error {
	d, err := source.ParseDuration(withUnit(text, "s"))
	*t = timeFlag(d)
	return err
}

// countFlag is a number of GPUs: "2", or "2-4" for at least 2 and up to 4.
type countFlag struct{ min, max int }

func (c *countFlag) UnmarshalText(text []byte) (err error) {
	c.min, c.max, err = source.ParseGPUs(string(text))
	return err
}

// percentFlag is a number from 0 to 100.
type percentFlag int

func (p *percentFlag) UnmarshalText(text []byte) error {
	n, err := source.ParsePercent(strings.TrimSuffix(string(text), "%"))
	*p = percentFlag(n)
	return err
}

// retryFlag is a number of retries, or "forever".
type retryFlag string

func (r *retryFlag) UnmarshalText(text []byte) error {
	*r = retryFlag(text)
	if *r == "forever" {
		return nil
	}
	_, err := source.ParseCount(string(text), 0)
	return err
}
