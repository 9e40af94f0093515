package terminal

import (
	"fmt"
	"strings"
	"testing"
)

func numbered(format string, from, to int) (names []string) {
	for i := from; i <= to; i++ {
		names = append(names, fmt.Sprintf(format, i))
	}
	return names
}

func TestNames(t *testing.T) {
	long := numbered("a-rather-long-name-of-one-experiment-%d-x", 1, 2)
	var matrix []string
	for i := range 40 {
		matrix = append(matrix, numbered(fmt.Sprintf("train-lr0.%d-s%%d", i), 1, 5)...)
	}
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"prep"}, "n done: prep"},
		{append([]string{"prep"}, numbered("s%d", 1, 950)...), "n done: prep, s{1..950}"},
		{[]string{"s1", "s2"}, "n done: s1, s2"},
		{append(numbered("s%d", 1, 6), numbered("s%d", 8, 40)...), "n done: s{1..6,8..40}"},
		{[]string{"s1-x", "s3-x", "s7-x", "t"}, "n done: s{1,3,7}-x, t"},
		{[]string{"lr0.1", "lr0.01", "lr0.001"}, "n done: lr0.{1,01,001}"},
		{numbered("s%02d", 8, 11), "n done: s{08..11}"},
		{[]string{"s9", "s10", "s11"}, "n done: s{9..11}"},
		{[]string{"a1b1", "a2b2", "a3b3"}, "n done: a1b1, a2b2, a3b3"},
		{[]string{"", "1", "2", "3"}, "n done: , {1..3}"},
		{long, "n done: a-rather-long-name-of-one-experiment-1-x,\n    a-rather-long-name-of-one-experiment-2-x"},
		{matrix, "n done: train-lr0.0-s{1..5}, train-lr0.1-s{1..5},\n    train-lr0.2-s{1..5}, train-lr0.3-s{1..5} and 180 more"},
	} {
		if got := strings.Join(Names("n done", tt.names, 60, 2), "\n"); got != tt.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
		}
	}
}
