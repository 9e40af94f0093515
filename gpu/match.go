package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// Select returns the devices that ids name: indices, index ranges ("2-3"),
// UUIDs or unique UUID prefixes. A GPU's index or UUID also names its MIG
// instances. Without ids it returns all. The error names an id that matches
// nothing, or more than one GPU.
func Select(devs []Device, ids []string) ([]Device, error) {
	for _, id := range ids {
		if _, err := matchOne(devs, id); err != nil {
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
	all := make([]bool, len(devs))
	for i := range all {
		all[i] = len(ids) == 0
	}
	for _, id := range ids {
		one, _ := matchOne(devs, id)
		for _, i := range one {
			all[i] = true
		}
	}
	return all
}

// matchOne returns the positions that one id names.
func matchOne(devs []Device, id string) ([]int, error) {
	id = strings.TrimSpace(id)
	var found []int
	if from, to, ok := indices(id); ok {
		for i, d := range devs {
			if from <= d.Index && d.Index <= to {
				found = append(found, i)
			}
		}
	} else if id != "" {
		if found = begins(devs, id); len(found) == 0 {
			if found = unknown(devs); len(found) > 0 {
				return found, nil // it may be any of these
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no GPU here matches %q: this machine has %s", id, listed(devs))
	}
	for _, i := range found[1:] {
		if !isNumber(id) && named(devs[i], id) != named(devs[found[0]], id) {
			return nil, fmt.Errorf("%q is ambiguous: several GPUs' UUIDs begin with it", id)
		}
	}
	return found, nil
}

// begins returns the devices whose UUID, or whose parent GPU's UUID, begins
// with id, or only the one whose UUID is exactly id.
func begins(devs []Device, id string) []int {
	var found []int
	for i, d := range devs {
		if string(d.UUID) == id {
			return []int{i}
		}
		if strings.HasPrefix(string(d.UUID), id) || strings.HasPrefix(string(d.Parent), id) {
			found = append(found, i)
		}
	}
	return found
}

// unknown returns the devices whose UUIDs are not known yet.
func unknown(devs []Device) []int {
	var found []int
	for i := range devs {
		if devs[i].Silent {
			found = append(found, i)
		}
	}
	return found
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

func isNumber(id string) bool {
	_, _, ok := indices(id)
	return ok
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

// model reports whether the device's name contains one of models, ignoring case.
// A device that has never answered may be any model.
func model(d *device, models []string) bool {
	if len(models) == 0 || d.Silent {
		return true
	}
	name := strings.ToLower(d.Name)
	for _, m := range models {
		if strings.Contains(name, strings.ToLower(m)) {
			return true
		}
	}
	return false
}
