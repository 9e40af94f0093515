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

func TestNamesCollapseRanges(t *testing.T) {
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

func TestDistinctKeepsCutNamesDifferent(t *testing.T) {
	for _, tt := range []struct {
		names []string
		w     int
		want  string
	}{
		{[]string{"a", "b"}, 8, "a b"},
		{[]string{"resnet18-svhn-lr0.1-s1", "resnet18-cifar10-lr0.1-s1"}, 16, "svhn-lr0.1-s1 cifar10-lr0.1-s1"},
		{[]string{"resnet18-svhn-lr0.1-s1", "resnet152-svhn-lr0.1-s2", "free"}, 16, "resnet18-s1 resnet152-s2 free"},
		{[]string{"averaging-with-momentum", "averaging-with-nesterov-momentum"}, 8, "ave…ntum …ne…ntum"},
		{[]string{"aaaaaaaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaaaaaaa10"}, 8, "aaa…aaa1 aaa…aa10"},
		{[]string{"训练数据集甲的名字", "训练数据集乙的名字"}, 8, "训…名字 …乙…名字"},
		{[]string{"one-name-for-two-jobs", "one-name-for-two-jobs"}, 8, "one…jobs one…jobs"},
	} {
		got := Distinct(tt.names, tt.w)
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%q in %d: got %q, want %q", tt.names, tt.w, text, tt.want)
		}
	}
	var all []string
	for _, model := range []string{"resnet18", "resnet152", "vit-tiny", "vit-base"} {
		for _, data := range []string{"svhn", "cifar10", "cifar100"} {
			for i := range 12 {
				all = append(all, fmt.Sprintf("sweep/%s-%s-with-a-long-name-lr%g-s%d", model, data, 1/float64(i+1), i))
			}
		}
	}
	for w := 4; w < 60; w++ {
		seen := map[string]string{}
		for i, name := range Distinct(all, w) {
			if Width(name) > w {
				t.Errorf("%q is wider than %d", name, w)
			}
			if seen[name] != "" {
				t.Errorf("%d columns: %q is both %s and %s", w, name, seen[name], all[i])
			}
			seen[name] = all[i]
		}
	}
}
