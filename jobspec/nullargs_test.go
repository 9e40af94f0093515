package jobspec

import "testing"

// An argument without a value is not passed, so it must not change the key.
func TestNullArgumentDoesNotChangeKey(t *testing.T) {
	with := mustLoad(t, writeJobFile(t, "jobs.yaml", "jobs: [{name: a, run: x, args: {seed: 1, verbose: null}}]\n"))
	without := mustLoad(t, writeJobFile(t, "jobs.yaml", "jobs: [{name: a, run: x, args: {seed: 1}}]\n"))
	if with.Jobs[0].Key != without.Jobs[0].Key {
		t.Error("a null argument changes the key")
	}
	printed(t, "jobs.yaml", "jobs: [{name: a, run: x, args: {seed: 1, verbose: null}}]\n")
}
