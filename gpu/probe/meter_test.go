package probe

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpurun/gpu"
)

func TestMeterReadsNvidiaSMI(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
case $1 in
--query-gpu=*) echo '0, GPU-a, 40960'; echo '1, GPU-b, 16384'; echo '2, GPU-c, [N/A]' ;;
*) echo 'GPU-a, 1000, 7'; echo 'GPU-b, [N/A], 8'; echo 'GPU-a, 24, [N/A]'; echo 'GPU-x, 5, 9' ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	got, err := (&Meter{}).Read(context.Background())
	by := func(pid int, memory gpu.Bytes) gpu.Process { return gpu.Process{PID: pid, UID: -1, Memory: memory} }
	want := []Metered{
		{0, "GPU-a", 40 * gpu.GiB, gpu.GiB, []gpu.Process{by(7, 1000*gpu.MiB), by(0, 24*gpu.MiB)}},
		{1, "GPU-b", 16 * gpu.GiB, -1, []gpu.Process{by(8, -1)}}, {2, "GPU-c", -1, 0, nil},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := (&Meter{}).Read(context.Background()); err == nil {
		t.Error("no error without nvidia-smi")
	}
}

func FuzzParseSMI(f *testing.F) {
	f.Add("0, GPU-a, 40960\n", "GPU-a, 1000, 7\n")
	f.Add("x, \"GPU-a\", [N/A]\n-1, , 5", "GPU-a, [Not Supported], -1\n")
	f.Fuzz(func(t *testing.T, gpus, apps string) {
		for _, g := range parseSMI(gpus, apps) {
			if g.Index < 0 || g.UUID == "" || g.Total < -1 || g.Used < -1 {
				t.Errorf("got %+v", g)
			}
		}
	})
}
