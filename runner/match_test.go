package runner

import (
	"reflect"
	"strconv"
	"testing"
)

func TestJobsAreFoundByNameAndGlob(t *testing.T) {
	names := []string{"a-1", "b", "a-2", "a[1]", "b"}
	for _, row := range []struct {
		patterns []string
		want     []int
		err      error
	}{
		{[]string{"b"}, []int{1, 4}, nil},
		{[]string{"a-2", "b", "a-1", "b"}, []int{0, 1, 2, 4}, nil},
		{[]string{"b", "a-*"}, []int{0, 1, 2, 4}, nil},
		{[]string{"a[1]", "b"}, []int{1, 3, 4}, nil},
		{[]string{"b", "c"}, nil, NoMatch("c")},
		{nil, nil, nil},
	} {
		got, err := MatchJobs(row.patterns, len(names), func(id int) string { return names[id] })
		if !reflect.DeepEqual(got, row.want) || err != row.err {
			t.Errorf("%q: got %v, %v, want %v, %v", row.patterns, got, err, row.want, row.err)
		}
	}
}

// The page may name thousands of jobs, and the run's loop finds them. It must not compare each name
// with each job.
func TestManyNamesAreFoundTogether(t *testing.T) {
	names, looks := make([]string, 1000), 0
	for i := range names {
		names[i] = "train-" + strconv.Itoa(i)
	}
	got, err := MatchJobs(names, len(names), func(id int) string { looks++; return names[id] })
	if err != nil || len(got) != len(names) || looks > 10*len(names) {
		t.Errorf("found %d of %d with %d looks, %v", len(got), len(names), looks, err)
	}
}
