package disk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gpurun/state"
)

// finish creates an attempt the way its keeper leaves it, and ends it.
func finish(t *testing.T, s *State, end state.Fact, more ...string) (uniID, dir string) {
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
	end.Kind, end.Key, end.UniID = state.KindEnd, id, id
	if err := s.Append(0, end); err != nil {
		t.Fatal(err)
	}
	s.RemoveAttempt(0, id)
	s.sync.flush()
	return id, dir
}

// A new attempt never sees an old one's file under a meaningful name.
func TestFoldersAreUsedAgain(t *testing.T) {
	good := state.Fact{State: state.Succeeded, ExitCode: exit(0)}
	tests := []struct {
		name  string
		end   state.Fact
		more  []string
		again bool
	}{
		{"an end", good, nil, true},
		{"a failure", state.Fact{State: state.Failed, ExitCode: exit(1)}, nil, true},
		{"a signal", state.Fact{State: state.Cancelled, Signal: "SIGTERM"}, nil, true},
		{"a result is removed", good, []string{resultName}, true},
		{"lost: its keeper may still write", state.Fact{State: state.Lost}, nil, false},
		{"stopped, and lost", state.Fact{State: state.Timeout}, nil, false},
		{"several commands", good, []string{"begun.2"}, false},
		{"a job's own file", good, []string{"x"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, jobFile(t))
			defer s.Close()
			_, old := finish(t, s, tt.end, tt.more...)
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
				t.Errorf("waiting: %v, %s has %q; want %v and %q", waits, dir, names, tt.again, want)
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
		finish(t, s, state.Fact{State: state.Succeeded, ExitCode: exit(0)})
	}
	dir := filepath.Join(s.Dir(0), triesName)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want an empty folder", left, err)
	}
}

// The next run sweeps the waiting folders that a killed run left.
func TestFoldersThatWaitAreSwept(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	_, dir := finish(t, s, state.Fact{State: state.Succeeded, ExitCode: exit(0)})
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
