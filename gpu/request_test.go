package gpu

import (
	"reflect"
	"testing"
)

// AtLeast must not compare requests that differ in a field it does not know. Otherwise a new field
// could hide a device.
func TestAtLeastComparesEveryField(t *testing.T) {
	base := Request{Min: 1, Max: 1, Memory: 8, MaxUtil: 30}
	if !base.AtLeast(base) {
		t.Error("a request does not ask for at least as much as itself")
	}
	weighed := map[string]func(r *Request){ // each change asks for more
		"Min":       func(r *Request) { r.Min = 2 },
		"Max":       func(r *Request) { r.Max = 2 },
		"Memory":    func(r *Request) { r.Memory = 9 },
		"MaxUtil":   func(r *Request) { r.MaxUtil = 29 },
		"UtilOnOwn": func(r *Request) { r.UtilOnOwn = true },
		"Models":    func(r *Request) { r.Models = "a100" },
		"IDs":       func(r *Request) { r.IDs = "0" },
		"Avoid":     func(r *Request) { r.Avoid = "GPU-0" },
	}
	kind := reflect.TypeFor[Request]()
	for i := range kind.NumField() {
		name, other := kind.Field(i).Name, base
		if more := weighed[name]; more != nil {
			more(&other)
			if !other.AtLeast(base) || name != "Max" && base.AtLeast(other) {
				t.Errorf("a stricter %s does not ask for more", name)
			}
			continue
		}
		switch f := reflect.ValueOf(&other).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		default:
			f.SetInt(7)
		}
		if other == base || other.AtLeast(base) || base.AtLeast(other) {
			t.Errorf("AtLeast compares requests with different %s", name)
		}
	}
}
