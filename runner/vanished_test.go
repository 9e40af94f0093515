package runner

import "testing"

func TestBackgroundStartsAreDetected(t *testing.T) {
	for script, want := range map[string]bool{
		"nohup python x >log 2>&1 &":     true,
		"nohup pyhton x & echo started":  true,
		"(python x &)":                   true,
		"a &\nb &\nwait":                 false,
		"a && b":                         false,
		"a >&2":                          false,
		"a &>log":                        false,
		"a |& tee log":                   false,
		"curl 'http://x?a=1& b'":         false,
		"curl http://x?a=1&b=2":          false,
		"echo \"a & b\"":                 false,
		"python x # not in background &": false,
	} {
		if got := startsBehind(script); got != want {
			t.Errorf("%q: got %v, want %v", script, got, want)
		}
	}
}
