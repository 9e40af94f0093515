package wire

import (
	"os"
	"path/filepath"
	"testing"

	"gpurun/runner/engine/procs"
)

func TestVoid(t *testing.T) {
	path := Marker(t.TempDir(), 0)
	for range 2 {
		if won, err := Void(path); !won || err != nil {
			t.Errorf("Void = %v, %v, want true: nobody else made it", won, err)
		}
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
		t.Errorf("there is something besides the marker: %v", names)
	}
	if p, err := Begun(path); p != (procs.ID{}) || err != nil {
		t.Errorf("Begun of a void marker = %v, %v", p, err)
	}
	begun := Marker(t.TempDir(), 1)
	stat, err := os.ReadFile("/proc/self/stat")
	if err == nil {
		err = os.WriteFile(begun, stat, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if won, err := Void(begun); won || err != nil {
		t.Errorf("Void of a begun attempt = %v, %v, want false", won, err)
	}
	if p, err := Begun(begun); p.PID != os.Getpid() || p.Start == 0 || err != nil {
		t.Errorf("Begun = %v, %v", p, err)
	}
}
