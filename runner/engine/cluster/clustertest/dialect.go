package clustertest

import (
	"strings"
	"testing"

	"gpurun/runner/engine/cluster"
)

// Args checks the arguments of a submission of what a job asks for. What is wanted may also be
// the beginning of the error.
func Args(t *testing.T, dialect cluster.Dialect, name string, asked cluster.Asked, want string) {
	t.Helper()
	args, err := dialect.Args(asked)
	got := strings.Join(args, " ")
	if err != nil {
		got = err.Error()[:min(len(err.Error()), len(want))]
	}
	if got != want || err != nil && want == "" {
		t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
	}
}

// A Refusal is what a dialect makes of an error.
type Refusal struct {
	Is  cluster.Refusal
	Why string
}

// Refused checks what a dialect makes of errors of a submission.
func Refused(t *testing.T, d cluster.Dialect, all map[string]Refusal) {
	Heard(t, func(text string) (r Refusal) {
		r.Is, r.Why = d.Refused(text)
		return r
	}, all)
}

// Heard checks what a dialect makes of texts that a command prints.
func Heard[T comparable](t *testing.T, hear func(text string) T, all map[string]T) {
	t.Helper()
	for text, want := range all {
		if got := hear(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
