package disk

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"gpurun/gpu"
	"gpurun/state"
)

// scan parses a line in the form this version usually writes, several times faster
// than encoding/json: every command has to read the whole ledger. For anything
// unusual (escapes, spaces, null, unknown fields, nested values) ok is false, and
// encoding/json decides.
func scan(line []byte) (f state.Fact, ok bool) {
	s := scanner{line}
	if !s.byte('{') {
		return f, false
	}
	for {
		name, ok := s.text()
		if !ok || !s.byte(':') || !s.field(&f, name) {
			return f, false
		}
		if s.byte('}') {
			return f, len(s.rest) == 0
		}
		if !s.byte(',') {
			return f, false
		}
	}
}

type scanner struct{ rest []byte }

// field reads the value of the named field into f.
func (s *scanner) field(f *state.Fact, name []byte) bool {
	switch string(name) {
	case "kind":
		return stringTo(s, &f.Kind)
	case "time":
		b, ok := s.text()
		return ok && f.Time.UnmarshalText(b) == nil
	case "job":
		return stringTo(s, &f.Job)
	case "key":
		return stringTo(s, &f.Key)
	case "uni_id":
		return stringTo(s, &f.UniID)
	case "log":
		return stringTo(s, &f.Log)
	case "needs":
		return stringTo(s, &f.Needs)
	case "why":
		return stringTo(s, &f.Why)
	case "state":
		return stringTo(s, &f.State)
	case "signal":
		return stringTo(s, &f.Signal)
	case "error_type":
		return stringTo(s, &f.ErrorType)
	case "reason":
		return stringTo(s, &f.Reason)
	case "line":
		return stringTo(s, &f.Line)
	case "by":
		return stringTo(s, &f.By)
	case "attempt":
		return intTo(s, &f.Attempt)
	case "memory_bytes":
		return intTo(s, &f.Memory)
	case "peak_gpu_memory_bytes":
		return intTo(s, &f.PeakMemory)
	case "peak_readings":
		return intTo(s, &f.PeakReadings)
	case "boot_ns":
		var old int64 // of an earlier gpurun
		return intTo(s, &old)
	case "pid":
		return intTo(s, &f.PID)
	case "pid_start":
		return intTo(s, &f.PIDStart)
	case "exit_code":
		f.ExitCode = new(int)
		return intTo(s, f.ExitCode)
	case "seconds":
		return s.float(&f.Seconds)
	case "commands":
		return listTo(s, &f.Commands, stringTo[string])
	case "gpus":
		return listTo(s, &f.GPUs, intTo[int])
	case "gpu_uuids":
		return listTo(s, &f.GPUUUIDs, stringTo[gpu.UUID])
	case "traits":
		return f.Traits == nil && s.texts(&f.Traits)
	case "params":
		return f.Params == nil && s.texts(&f.Params)
	}
	return false
}

func (s *scanner) byte(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// text reads a string without escapes.
func (s *scanner) text() ([]byte, bool) {
	if !s.byte('"') {
		return nil, false
	}
	n := bytes.IndexByte(s.rest, '"')
	if n < 0 {
		return nil, false
	}
	b := s.rest[:n]
	ascii := true
	for _, c := range b {
		if c == '\\' || c < ' ' {
			return nil, false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	s.rest = s.rest[n+1:]
	return b, ascii || utf8.Valid(b)
}

func stringTo[T ~string](s *scanner, to *T) bool {
	b, ok := s.text()
	*to = T(b)
	return ok
}

// intTo reads an integer of at most 18 digits, but not -0.
func intTo[T ~int | ~int64 | ~uint64](s *scanner, to *T) bool {
	negative := s.byte('-')
	n, digits := int64(0), 0
	for ; digits < len(s.rest) && isDigit(s.rest[digits]); digits++ {
		if digits == 18 {
			return false
		}
		n = n*10 + int64(s.rest[digits]-'0')
	}
	if digits == 0 || digits > 1 && s.rest[0] == '0' {
		return false
	}
	s.rest = s.rest[digits:]
	if negative {
		n = -n
	}
	*to = T(n)
	return int64(*to) == n && (n < 0) == (*to < 0) && (!negative || n != 0)
}

// float reads a nonnegative decimal number without exponent.
func (s *scanner) float(to *float64) bool {
	whole := 0
	for whole < len(s.rest) && isDigit(s.rest[whole]) {
		whole++
	}
	if whole == 0 || whole > 1 && s.rest[0] == '0' {
		return false
	}
	n := whole
	if n < len(s.rest) && s.rest[n] == '.' {
		for n++; n < len(s.rest) && isDigit(s.rest[n]); n++ {
		}
		if n == whole+1 {
			return false
		}
	}
	v, err := strconv.ParseFloat(string(s.rest[:n]), 64)
	*to, s.rest = v, s.rest[n:]
	return err == nil
}

func listTo[T any](s *scanner, to *[]T, each func(*scanner, *T) bool) bool {
	if !s.byte('[') {
		return false
	}
	list := []T{}
	for !s.byte(']') {
		var v T
		if len(list) > 0 && !s.byte(',') || !each(s, &v) {
			return false
		}
		list = append(list, v)
	}
	*to = list
	return true
}

// texts reads an object whose values are strings.
func (s *scanner) texts(to *map[string]string) bool {
	if !s.byte('{') {
		return false
	}
	m := map[string]string{}
	for first := true; !s.byte('}'); first = false {
		if !first && !s.byte(',') {
			return false
		}
		name, ok := s.text()
		if !ok || !s.byte(':') {
			return false
		}
		value, ok := s.text()
		if !ok {
			return false
		}
		m[string(name)] = string(value)
	}
	*to = m
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
