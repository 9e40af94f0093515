package disk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpurun/state"
)

// finish makes an attempt as its keeper leaves it, and ends it.
func finish(t *testing.T, s *State, as state.Phase, more ...string) (uniID, dir string) {
	t.Helper()
	id, dir, err := s.NewAttempt(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{statusName, begunName}, more...) {
		_ = os.Remove(filepath.Join(dir, "spare."+name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte("of "+id), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(0, state.Fact{Kind: state.KindEnd, Key: id, UniID: id, State: as}); err != nil {
		t.Fatal(err)
	}
	s.RemoveAttempt(0, id)
	s.sync.flush()
	return id, dir
}

// A new attempt never sees a file of an old one under a name that means something.
func TestFoldersAreUsedAgain(t *testing.T) {
	tests := []struct {
		name  string
		as    state.Phase
		more  []string
		again bool
	}{
		{"an end", state.Succeeded, nil, true},
		{"a failure", state.Failed, nil, true},
		{"a result is removed", state.Succeeded, []string{resultName}, true},
		{"lost: its keeper may still write", state.Lost, nil, false},
		{"several commands", state.Succeeded, []string{"begun.2"}, false},
		{"what a job has put there", state.Succeeded, []string{"x"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, jobFile(t))
			defer s.Close()
			_, old := finish(t, s, tt.as, tt.more...)
			waits := len(s.recycler.spare[filepath.Dir(old)]) == 1
			id, dir, err := s.NewAttempt(0)
			if err != nil {
				t.Fatal(err)
			}
			names, _ := readNames(dir)
			var want []string
			if tt.again {
				want = []string{spareBegun, statusName}
			}
			if waits != tt.again || !slices.Equal(names, want) || dir != s.AttemptDir(0, id) {
				t.Errorf("waits %v, and %s has %q, want %v and %q", waits, dir, names, tt.again, want)
			}
			if _, err := os.Stat(old); err == nil {
				t.Errorf("%s is still there", old)
			}
		})
	}
}

func TestNothingIsLeftOfFolders(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	for range 3 {
		finish(t, s, state.Succeeded)
	}
	dir := filepath.Join(s.Dir(0), triesName)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want an empty folder", left, err)
	}
}

// A run that was killed leaves folders that wait: the next one sweeps them.
func TestFoldersThatWaitAreSwept(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	_, dir := finish(t, s, state.Succeeded)
	_ = s.unlock()
	next := open(t, job)
	defer next.Close()
	if len(next.Warnings()) != 0 {
		t.Errorf("warnings %q", next.Warnings())
	}
	next.sync.flush()
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is still there", dir)
	}
}
