package host

import "testing"

func TestParseCores(t *testing.T) {
	for list, want := range map[string][]int{"0-3,8\n": {0, 1, 2, 3, 8}, "5": {5}, "0-1,16-17": {0, 1, 16, 17}, "1023": {1023}} {
		set, err := ParseCores(list)
		for _, i := range want {
			if !set.IsSet(i) {
				t.Errorf("%q: core %d is missing", list, i)
			}
		}
		if set.Count() != len(want) || err != nil {
			t.Errorf("%q: %d cores, %v", list, set.Count(), err)
		}
	}
	for _, list := range []string{"", "a", "3-1", "-1", "1-", "1024", "0,,1", "0-99999999999999999999"} {
		if _, err := ParseCores(list); err == nil {
			t.Errorf("%q is accepted as a list of cores", list)
		}
	}
}
