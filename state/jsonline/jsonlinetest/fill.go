// Package jsonlinetest helps test code that writes field by field: no field may be
// missing, including ones added later.
package jsonlinetest

import (
	"reflect"
	"strings"
	"time"
)

// Fill sets every field of what v points to, recursively, to a nonzero value different
// from its neighbor's.
func Fill(v any) {
	n := int64(0)
	fill(reflect.ValueOf(v).Elem(), &n)
}

func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if _, ok := v.Addr().Interface().(*time.Time); ok {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000+*n, *n)))
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f, n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("any"))
	case reflect.String:
		v.SetString(strings.Repeat("é\"", int(*n)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	default:
		v.SetInt(-*n)
	}
}
