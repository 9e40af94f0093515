package schema

import (
	"math"
	"time"
)

// Known returns a pointer to v, or nil if v is the zero value, which means unknown.
func Known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Value returns what p points to, or the zero value for nil.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// AtLeast returns a pointer to v, or nil if v is below least, which means that it is unknown.
func AtLeast[T ~int | ~int64 | ~float64](v, least T) *T {
	if v < least {
		return nil
	}
	return &v
}

// Finite returns a pointer to x, or nil for NaN and infinities, which JSON cannot represent.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Time returns t in UTC, or nil if it is unknown.
func Time(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// List returns list, or an empty list instead of nil.
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
