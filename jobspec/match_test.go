package jobspec

import "testing"

func TestGlobMatchesNames(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"train-*", "train-a/b", true},
		{"train-*", "xtrain-a", false},
		{"*-s?", "train-s1", true},
		{"*-s?", "train-s10", false},
		{"a.b", "axb", false},
		{"a[0-9]", "a7", true},
		{"a[0-9x-]", "a-", true},
		{"a[!0-9]", "a7", false},
		{"a[^0-9]", "ab", true},
		{"a[]b]", "a]", true},
		{`a[\b]`, `a\`, true},
		{"a[^]", "ax", true},
		{"a[9-0]", "a5", false},
		{"a[0", "a[0", true},
		{"a[]", "a[]", true},
		{"a**b", "ab", true},
		{"", "a", false},
	} {
		if got := Glob(test.pattern).MatchString(test.name); got != test.want {
			t.Errorf("%q matches %q: %t, want %t", test.pattern, test.name, got, test.want)
		}
	}
}
