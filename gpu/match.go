package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Select returns the devices that ids name: indices, index ranges ("2-3"),
// UUIDs or unique UUID prefixes. A GPU's index or UUID also names its MIG
// instances. Without ids it returns all. The error names an id that matches
// nothing, or more than one GPU.
func Select(devs []Device, ids []string) ([]Device, error) {
	for _, id := range ids {
		if _, err := match(devs, id); err != nil {
			return nil, err
		}
	}
	var selected []Device
	for i, ok := range matches(devs, ids) {
		if ok {
			selected = append(selected, devs[i])
		}
	}
	return selected, nil
}

// matches returns, for each device, whether ids name it. It ignores ids that match nothing.
func matches(devs []Device, ids []string) []bool {
	named := make([]bool, len(devs))
	for i := range named {
		named[i] = len(ids) == 0
	}
	for _, id := range ids {
		some, _ := match(devs, id)
		for _, i := range some {
			named[i] = true
		}
	}
	return named
}

// match returns the positions of the devices that one id names. What names none may be
// the UUID of any that has never answered.
func match(devs []Device, id string) ([]int, error) {
	id = strings.TrimSpace(id)
	from, to, numbered := indices(id)
	var found, silent []int
	for i, d := range devs {
		switch {
		case numbered:
			if from <= d.Index && d.Index <= to {
				found = append(found, i)
			}
		case id == "":
		case string(d.UUID) == id:
			return []int{i}, nil
		case strings.HasPrefix(string(d.UUID), id) || strings.HasPrefix(string(d.Parent), id):
			found = append(found, i)
		case d.Silent:
			silent = append(silent, i)
		}
	}
	switch {
	case len(found)+len(silent) == 0:
		return nil, fmt.Errorf("no GPU here matches %q: this machine has %s", id, listed(devs))
	case len(found) == 0:
		return silent, nil
	}
	for _, i := range found {
		if !numbered && named(devs[i], id) != named(devs[found[0]], id) {
			return nil, fmt.Errorf("%q is ambiguous: several GPUs' UUIDs begin with it", id)
		}
	}
	return found, nil
}

// named returns the UUID that begins with id: the device's, or its parent GPU's.
func named(d Device, id string) UUID {
	if strings.HasPrefix(string(d.UUID), id) {
		return d.UUID
	}
	return d.Parent
}

// indices parses "3" or "2-5".
func indices(id string) (from, to int, ok bool) {
	a, b, isRange := strings.Cut(id, "-")
	from, err := strconv.Atoi(a)
	if err != nil || from < 0 {
		return 0, 0, false
	}
	if !isRange {
		return from, from, true
	}
	to, err = strconv.Atoi(b)
	return from, to, err == nil && to >= from
}

func listed(devs []Device) string {
	if len(devs) == 0 {
		return "none"
	}
	var names []string
	for _, d := range devs {
		names = append(names, strconv.Itoa(d.Index)+" ("+string(d.UUID)+")")
	}
	if n := len(names); n > 8 {
		names = append(names[:8], fmt.Sprintf("and %d more", n-8))
	}
	return strings.Join(names, ", ")
}

// is reports whether the device's name contains one of models, ignoring case.
// A device that has never answered may be any model.
func (d Device) is(models Names) bool {
	return models == "" || d.Silent || slices.ContainsFunc(models.List(), func(m string) bool {
		return strings.Contains(strings.ToLower(d.Name), strings.ToLower(m))
	})
}
