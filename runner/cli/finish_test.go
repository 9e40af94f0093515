package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/batches"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

func TestFullDiskGetsHintToFreeSpace(t *testing.T) {
	for _, tt := range []struct {
		err  error
		free bool
	}{
		{&disk.FolderError{Dir: "/x", Err: unix.ENOSPC}, true},
		{fmt.Errorf("write: %w", unix.EDQUOT), true},
		{errors.New("cannot write /x/status: no space left on device"), true},
		{errors.New("cannot write /x/status: disk quota exceeded"), true},
		{&disk.FolderError{Dir: "/x", Err: unix.EROFS}, false},
		{errors.New("cannot write /x/status: input/output error"), false},
		{&disk.TakenError{What: "removed or replaced lock"}, false},
	} {
		f := ledgerFailure(schema.Result{Final: &schema.Status{}, StateErr: tt.err}, batches.ExitState)
		if free := strings.Contains(f.Hint, "free some space"); free != tt.free || f.Hint == "" {
			t.Errorf("%v: got hint %q, want free some space: %v", tt.err, f.Hint, tt.free)
		}
	}
}
