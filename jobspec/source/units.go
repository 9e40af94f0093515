package source

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
)

// ParseSize parses an amount of memory. It refuses bare numbers except 0, because tools disagree
// about their unit.
func ParseSize(s string) (gpu.Bytes, error) {
	if s == "0" {
		return 0, nil
	}
	b, err := gpu.ParseBytes(s)
	if err == nil {
		return b, nil
	}
	n, bare := strconv.ParseFloat(s, 64)
	switch {
	case bare == nil && n < 0, strings.HasPrefix(s, "-"):
		return 0, Faultf("try 8GiB or 8000MiB", "%q is negative", s)
	case bare == nil && n >= 256 && n == math.Trunc(n) && n < 1e12:
		return 0, Faultf(fmt.Sprintf("write %sMiB or %sGiB", s, strconv.FormatFloat(math.Max(1, math.Round(n/1000)), 'f', -1, 64)), "%q has no unit", s)
	case bare == nil && !math.IsInf(n, 0) && !math.IsNaN(n):
		return 0, Faultf(fmt.Sprintf("write %sGiB or %sMiB", s, strconv.FormatFloat(n*1000, 'f', -1, 64)), "%q has no unit", s)
	case strings.Contains(err.Error(), "any machine"):
		return 0, Faultf("", "%q is more than any machine has", s)
	}
	return 0, Faultf("try "+cmp.Or(otherSize(s), "8GiB or 8000MiB"), "invalid size %q", s)
}

var sizeForm = regexp.MustCompile(`(?i)^(\d+(?:\.\d+)?) *([kmgt])(i?)(b?|igs?)$`)

// otherSize converts 8G, 8Gi, 8gb or 8000 MB to gpurun's units; "" if it is not a size. A unit with
// neither i nor B is binary, as in every scheduler.
func otherSize(s string) string {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	unit := strings.ToUpper(m[2])
	if m[3] == "" && strings.EqualFold(m[4], "b") {
		return m[1] + unit + "B"
	}
	return m[1] + unit + "iB"
}

// maxCount bounds counts of GPUs, cores and retries; larger numbers are mistakes.
const maxCount = 1_000_000

// ParseCount parses a whole number from least to maxCount.
func ParseCount(s string, least int) (int, error) {
	n, err := ParseInteger(s, maxCount, "")
	switch {
	case err != nil:
		return 0, err
	case n < int64(least) && least == 0:
		return 0, Faultf("", "%q is negative", s)
	case n < int64(least):
		return 0, Faultf("", "%q is less than %d", s, least)
	}
	return int(n), nil
}

// ParseInteger parses a whole number from -most to most. Its errors contain the hint.
func ParseInteger(s string, most int64, hint string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err == nil && -most <= n && n <= most:
		return n, nil
	case !IsNumber(s):
		return 0, Faultf(hint, "%q is not a number", Clip(s))
	}
	switch f, _ := strconv.ParseFloat(s, 64); {
	case f > float64(most):
		return 0, Faultf(hint, "%q is too large", Clip(s))
	case f < -float64(most):
		return 0, Faultf(hint, "%q is too small", Clip(s))
	}
	return 0, Faultf(hint, "%q is not a whole number", Clip(s))
}

// IsNumber reports whether s is a number without a unit.
func IsNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// ParsePercent parses a number such as 30. For "30%", it returns an error that says to drop the sign.
func ParsePercent(s string) (int, error) {
	if p, ok := strings.CutSuffix(s, "%"); ok {
		return 0, Faultf("write "+strings.TrimSpace(p), "invalid percentage %q", s)
	}
	n, err := strconv.Atoi(s)
	if err == nil && n >= 0 && n <= 100 {
		return n, nil
	}
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil && f > 0 && f < 1 {
		return 0, Faultf(fmt.Sprintf("try %d", int(math.Round(f*100))), "invalid percentage %q", s)
	}
	return 0, Faultf("use a whole number from 0 to 100", "invalid percentage %q", s)
}

// ParseBool parses true or false. It refuses other words for them, such as yes, and suggests a fix.
func ParseBool(s string) (bool, error) {
	switch s {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	case "yes", "Yes", "on", "On", "1", "y":
		return false, Faultf("write true", "must be true or false, not %q", s)
	case "no", "No", "off", "Off", "0", "n":
		return false, Faultf("write false", "must be true or false, not %q", s)
	}
	return false, Faultf("", "must be true or false, not %q", s)
}

// ParseWord returns s if it is one of words, otherwise an error with a hint.
func ParseWord(s string, words ...string) (string, error) {
	if slices.Contains(words, s) {
		return s, nil
	}
	return "", Faultf(DidYouMean(s, words, "valid values: "+strings.Join(words, ", ")), "unknown value %q", s)
}

// OneOf returns a parser that accepts only the given words.
func OneOf[T ~string](valid ...T) func(string) (T, error) {
	words := make([]string, len(valid))
	for i, w := range valid {
		words[i] = string(w)
	}
	return func(s string) (T, error) {
		w, err := ParseWord(s, words...)
		return T(w), err
	}
}

// ParseGPUIDs parses "0,2-3" or UUIDs into single IDs.
func ParseGPUIDs(s string) ([]string, error) {
	var ids []string
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "GPU-") || strings.HasPrefix(part, "MIG-") {
			ids = append(ids, part)
			continue
		}
		a, b, ok := gpu.Range(part)
		if !ok || b > 4096 {
			return nil, Faultf("use indices (0,2-3) or UUIDs (GPU-…)", "invalid GPU ID %q", part)
		}
		for i := a; i <= b; i++ {
			ids = append(ids, strconv.Itoa(i))
		}
	}
	return ids, nil
}

// ParseGPUs parses a number of GPUs: 2, or 2-4 for at least 2 and at most 4.
func ParseGPUs(s string) (least, most int, err error) {
	low, high, ranged := strings.Cut(s, "-")
	if strings.Contains(s, ",") {
		return 0, 0, Faultf("gpus is a count; for specific GPUs, write gpu_ids: ["+s+"]", "%q is not a number", s)
	}
	if !ranged || low == "" {
		least, err = ParseCount(s, 0)
		return least, least, err
	}
	if least, err = ParseCount(strings.TrimSpace(low), 1); err == nil {
		most, err = ParseCount(strings.TrimSpace(high), 1)
	}
	if err == nil && most < least {
		err = Faultf(fmt.Sprintf("write %d-%d", most, least), "range %q is reversed", s)
	}
	return least, most, err
}

// FormatSize formats b so that ParseSize can read it back.
func FormatSize(b gpu.Bytes) string {
	if b == 0 {
		return "0"
	}
	return b.String()
}
