//go:build linux && cgo

package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// The tests of NVML run the real child, including go-nvml, with a stand-in library described in
// testdata/standin.c.

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		sysPCI = cmp.Or(os.Getenv(sysPCIVariable), "/nonexistent")
		os.Exit(ChildMain(os.Args[2:]))
	}
	code := m.Run()
	if libraries.dir != "" {
		_ = os.RemoveAll(libraries.dir)
	}
	os.Exit(code)
}

// libraries holds the stand-ins built so far, by compiler flags.
var libraries struct {
	sync.Mutex
	dir   string
	built map[string]string
}

// standIn builds the stand-in library.
func standIn(t *testing.T, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler (cc): the stand-in for NVML cannot be built")
	}
	libraries.Lock()
	defer libraries.Unlock()
	key := strings.Join(flags, " ")
	if path, ok := libraries.built[key]; ok {
		return path
	}
	if libraries.dir == "" {
		dir, err := os.MkdirTemp("", "gpurun-nvml-")
		if err != nil {
			t.Fatal(err)
		}
		libraries.dir, libraries.built = dir, map[string]string{}
	}
	path := filepath.Join(libraries.dir, fmt.Sprintf("libnvidia-ml-%d.so", len(libraries.built)))
	if out, err := exec.Command("sh", append([]string{"testdata/build.sh", path}, flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	libraries.built[key] = path
	return path
}

// behave sets how the stand-in behaves from now on. It replaces the file by rename, because the
// library may read it at any time.
func behave(t *testing.T, lines ...string) {
	t.Helper()
	path := os.Getenv("NVML_STANDIN")
	if path == "" {
		path = filepath.Join(t.TempDir(), "standin")
		t.Setenv("NVML_STANDIN", path)
	}
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, o Options) *reader {
	t.Helper()
	p, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.(*reader)
}

func full(r *reader) gpu.Observation {
	return r.Read(context.Background(), Query{Processes: true})
}

const (
	gpu0 = gpu.UUID("GPU-00000000-0000-0000-0000-000000000000")
	gpu1 = gpu.UUID("GPU-00000001-0000-0000-0000-000000000000")
)

func TestDevicesAreInPCIOrder(t *testing.T) {
	behave(t, "mode.1=3", "total.1=81920", "noise=1")
	r := open(t, Options{Library: standIn(t)})
	want := []gpu.Device{ // in PCI order, which differs from index order
		{Index: 1, UUID: gpu1, Name: "NVIDIA Stand-In", PCI: "00000000:70:00.0", Total: 80 * gpu.GiB, ComputeMode: gpu.ComputeExclusive},
		{Index: 0, UUID: gpu0, Name: "NVIDIA Stand-In", PCI: "00000000:80:00.0", Total: 24 * gpu.GiB},
	}
	if got := r.Devices(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !r.Complete() || len(r.found.Warnings) > 0 {
		t.Errorf("got complete %t, warnings %q, want complete without warnings", r.Complete(), r.found.Warnings)
	}
	if got, want := r.Version(), "NVML 13.580.65.06, driver 580.65.06"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// reading returns a full reading of one GPU of the stand-in.
func reading(t *testing.T, r *reader, id gpu.UUID) gpu.Reading {
	t.Helper()
	before := host.Boottime()
	snap := full(r)
	if snap.Err != "" || snap.At < before {
		t.Fatalf("got %+v", snap)
	}
	for _, got := range snap.Readings {
		if got.UUID == id {
			return got
		}
	}
	t.Fatalf("no reading of %s in %+v", id, snap)
	return gpu.Reading{}
}

// percents checks the times of a reading's samples, removes them, and returns their values.
func percents(t *testing.T, r *gpu.Reading) []int {
	t.Helper()
	var p []int
	last := time.Duration(0)
	for _, s := range r.Samples {
		if s.At <= last || s.At > host.Boottime() || s.At < host.Boottime()-time.Minute {
			t.Errorf("got a sample at %v, now is %v", s.At, host.Boottime())
		}
		last = s.At
		p = append(p, s.Percent)
	}
	r.Samples = nil
	return p
}

func TestFullReading(t *testing.T) {
	me := gpu.Process{PID: os.Getpid(), UID: os.Getuid()}
	o := newOwners("/proc")
	o.find(&me)
	noUsers := func(ps ...gpu.Process) []gpu.Process { return ps }
	plain := gpu.Reading{UUID: gpu0, Total: 24 * gpu.GiB, Free: 23576 * gpu.MiB, Used: 400 * gpu.MiB, Listed: true}
	tests := []struct {
		name     string
		flags    []string
		lines    []string
		want     func(r *gpu.Reading)
		percents []int
	}{
		{name: "idle", percents: []int{0}},
		{name: "busy", lines: []string{"util.0=71", "free.0=1024", "used.0=23000", "mode.0=2"}, percents: []int{71},
			want: func(r *gpu.Reading) {
				r.Free, r.Used, r.ComputeMode = gpu.GiB, 23000*gpu.MiB, gpu.ComputeProhibited
			}},
		{name: "the driver's own samples", lines: []string{"util.0=5", "samples.0=10,20,30,-1,400"}, percents: []int{10, 20, 30, 5}},
		{name: "no utilization", lines: []string{"err.util.0=3", "samples.0=1,2"}},
		{name: "impossible utilization", lines: []string{"util.0=4294967295"}},
		{name: "processes", lines: []string{fmt.Sprintf("procs.0=0:5,%d:1024,2147483646:-1,2147483645:99999999,2147483646:7", os.Getpid()), "mps.0=2147483644:7"},
			percents: []int{0}, want: func(r *gpu.Reading) {
				mine := me
				mine.Memory = gpu.GiB
				r.Processes = noUsers(mine, gpu.Process{PID: 2147483646, UID: -1, Memory: -1}, gpu.Process{PID: 2147483644, UID: -1, Memory: 7 * gpu.MiB})
			}},
		{name: "no list", lines: []string{"err.procs.0=4"}, percents: []int{0}, want: func(r *gpu.Reading) { r.Listed = false }},
		{name: "list longer than its buffer", lines: []string{"overlong.0=1"}, percents: []int{0}, want: func(r *gpu.Reading) { r.Listed = false }},
		{name: "driver whose lists overrun the buffer", lines: []string{"driver=535.54.03", "crash=procs"}, percents: []int{0}, want: func(r *gpu.Reading) { r.Listed = false }},
		{name: "no list of MPS", flags: []string{"-DNO_nvmlDeviceGetMPSComputeRunningProcesses_v3"}, lines: []string{"mps.0=5:5"}, percents: []int{0}},
		{name: "memory unsupported", lines: []string{"err.memory.0=3", "err.memory2.0=3"}, percents: []int{0},
			want: func(r *gpu.Reading) { r.Total, r.Free, r.Used = -1, -1, -1 }},
		{name: "no memory v2", flags: []string{"-DNO_nvmlDeviceGetMemoryInfo_v2"}, percents: []int{0},
			want: func(r *gpu.Reading) { r.Used = 1000 * gpu.MiB }},
		{name: "memory v2 refused", lines: []string{"err.memory2.0=25"}, percents: []int{0},
			want: func(r *gpu.Reading) { r.Used = 1000 * gpu.MiB }},
		{name: "no memory at all", flags: []string{"-DNO_nvmlDeviceGetMemoryInfo", "-DNO_nvmlDeviceGetMemoryInfo_v2"}, percents: []int{0},
			want: func(r *gpu.Reading) { r.Total, r.Free, r.Used = -1, -1, -1 }},
		{name: "only memory is supported", flags: []string{"-DNO_nvmlDeviceGetName", "-DNO_nvmlDeviceGetComputeMode", "-DNO_nvmlDeviceGetUtilizationRates",
			"-DNO_nvmlDeviceGetSamples", "-DNO_nvmlDeviceGetComputeRunningProcesses_v3"}, want: func(r *gpu.Reading) { r.Listed = false }},
		{name: "an old driver", flags: []string{"-DOLD"}, lines: []string{"procs.0=2147483646:1024,2147483645:-1"}, percents: []int{0},
			want: func(r *gpu.Reading) {
				r.Used = 1000 * gpu.MiB
				r.Processes = noUsers(gpu.Process{PID: 2147483646, UID: -1, Memory: gpu.GiB}, gpu.Process{PID: 2147483645, UID: -1, Memory: -1})
			}},
		{name: "lost", lines: []string{"err.memory.0=15", "err.memory2.0=15"}, want: func(r *gpu.Reading) {
			*r = gpu.Reading{UUID: gpu0, Err: "GPU is lost: it has fallen off the bus (NVML error 15)", Lost: true, Total: -1, Free: -1, Used: -1}
		}},
		{name: "lost between two calls", lines: []string{"err.procs.0=15"}, want: func(r *gpu.Reading) {
			*r = gpu.Reading{UUID: gpu0, Err: "GPU is lost: it has fallen off the bus (NVML error 15)", Lost: true, Total: -1, Free: -1, Used: -1}
		}},
		{name: "lost when ECC errors are read", lines: []string{"err.ecc.0=15"}, want: func(r *gpu.Reading) {
			*r = gpu.Reading{UUID: gpu0, Err: "GPU is lost: it has fallen off the bus (NVML error 15)", Lost: true, Total: -1, Free: -1, Used: -1}
		}},
		{name: "needs a reset", lines: []string{"err.procs.0=16"}, want: func(r *gpu.Reading) {
			*r = gpu.Reading{UUID: gpu0, Err: "GPU needs a reset (NVML error 16)", Total: -1, Free: -1, Used: -1}
		}},
		{name: "ECC", lines: []string{"ecc.0=2"}, percents: []int{0}, want: func(r *gpu.Reading) { r.Health = &gpu.Health{Uncorrected: 2} }},
		{name: "no ECC errors", lines: []string{"ecc.0=0"}, percents: []int{0}, want: func(r *gpu.Reading) { r.Health = &gpu.Health{} }},
		{name: "ECC cannot be read", flags: []string{"-DNO_nvmlDeviceGetTotalEccErrors"}, lines: []string{"ecc.0=2", "remap.0=1"}, percents: []int{0},
			want: func(r *gpu.Reading) { r.Health = &gpu.Health{Uncorrected: -1, Remap: true} }},
		{name: "a critical error", lines: []string{"xid=0:79"}, percents: []int{0}, want: func(r *gpu.Reading) { r.Health = &gpu.Health{Uncorrected: -1, Xid: 79} }},
		{name: "a contained memory error", lines: []string{"xid=0:94"}, percents: []int{0}, want: func(r *gpu.Reading) { r.Health = &gpu.Health{Uncorrected: -1, Xid: 94} }},
		{name: "critical error of an application", lines: []string{"xid=0:13"}, percents: []int{0}},
		{name: "no events", flags: []string{"-DNO_nvmlEventSetCreate"}, lines: []string{"xid=0:79"}, percents: []int{0}},
		{name: "events are refused", lines: []string{"err.register=3", "xid=0:79"}, percents: []int{0}},
		{name: "unknown error code", lines: []string{"err.memory.0=77", "err.memory2.0=77"}, want: func(r *gpu.Reading) {
			*r = gpu.Reading{UUID: gpu0, Err: "NVML error 77", Total: -1, Free: -1, Used: -1}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			behave(t, tt.lines...)
			r := open(t, Options{Library: standIn(t, tt.flags...)})
			got, want := reading(t, r, gpu0), plain
			if p := percents(t, &got); !reflect.DeepEqual(p, tt.percents) {
				t.Errorf("got samples %v, want %v", p, tt.percents)
			}
			if tt.want != nil {
				tt.want(&want)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if other := reading(t, r, gpu1); other.Err != "" {
				t.Errorf("GPU 1 fails, too: %+v", other)
			}
		})
	}
}

// A critical error is reported once, in the next full reading of its device. A quick reading must
// not consume it.
func TestCriticalErrorIsReportedOnce(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t)})
	behave(t, "xid=1:48")
	r.Read(context.Background(), Query{UUIDs: []gpu.UUID{gpu1}}) // a quick reading
	for i, want := range []int{48, 0} {
		xid := 0
		if h := reading(t, r, gpu1).Health; h != nil {
			xid = h.Xid
		}
		if xid != want {
			t.Errorf("reading %d: Xid %d, want %d", i, xid, want)
		}
	}
}

func TestQuickReadingHasOnlyMemory(t *testing.T) {
	behave(t, "crash=procs")
	r := open(t, Options{Library: standIn(t)})
	got := r.Read(context.Background(), Query{UUIDs: []gpu.UUID{gpu1, "GPU-gone"}}).Readings
	want := []gpu.Reading{
		{UUID: gpu1, Total: 24 * gpu.GiB, Free: 23576 * gpu.MiB, Used: 400 * gpu.MiB},
		{UUID: "GPU-gone", Err: "not found (NVML error 6)", Total: -1, Free: -1, Used: -1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDeviceRecoversWithoutNewChild(t *testing.T) {
	for _, flags := range [][]string{nil, {"-DNO_nvmlDeviceGetHandleByUUID"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			behave(t)
			r := open(t, Options{Library: standIn(t, flags...)})
			first := r.child
			behave(t, "err.memory.0=15", "err.memory2.0=15")
			if got := reading(t, r, gpu0); got.Err == "" {
				t.Errorf("got %+v, want an error", got)
			}
			behave(t)
			if got := reading(t, r, gpu0); got.Err != "" || r.child != first {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestMIGInstancesAreListed(t *testing.T) {
	behave(t, "mig.0=3", "err.memory.0=4", "err.memory2.0=4", "err.procs.0=4", "total.10=4864", "free.10=4000", "used.10=10", "total.12=4864", "procs.10=2147483646:500")
	r := open(t, Options{Library: standIn(t)})
	const first, third = gpu.UUID("MIG-00000010-0000-0000-0000-000000000000"), gpu.UUID("MIG-00000012-0000-0000-0000-000000000000")
	var got []gpu.Device
	for _, d := range r.Devices() {
		if d.MIG {
			got = append(got, d)
		}
	}
	instance := gpu.Device{Index: 0, UUID: first, Name: "NVIDIA Stand-In MIG 1g.5gb", PCI: "00000000:80:00.0", Total: 4864 * gpu.MiB, MIG: true, Parent: gpu0}
	another := instance
	another.UUID = third
	if want := []gpu.Device{instance, another}; !reflect.DeepEqual(got, want) || len(r.Devices()) != 3 {
		t.Errorf("got %+v, want %+v and the other GPU", r.Devices(), want)
	}
	gotReading := reading(t, r, first)
	wantReading := gpu.Reading{UUID: first, Total: 4864 * gpu.MiB, Free: 4000 * gpu.MiB, Used: 10 * gpu.MiB, Listed: true,
		Processes: []gpu.Process{{PID: 2147483646, UID: -1, Memory: 500 * gpu.MiB}}}
	if !reflect.DeepEqual(gotReading, wantReading) {
		t.Errorf("got %+v, want %+v", gotReading, wantReading)
	}
}

func TestForbiddenGPUsAreLeftOut(t *testing.T) {
	behave(t, "err.handle.0=4")
	r := open(t, Options{Library: standIn(t)})
	if got := r.Devices(); len(got) != 1 || got[0].UUID != gpu1 {
		t.Errorf("got %+v, want GPU 1 alone", got)
	}
	want := []string{"skipping GPU 0: no permission (NVML error 4)"}
	if got := r.found.Warnings; !reflect.DeepEqual(got, want) || r.Complete() {
		t.Errorf("got %q, complete %t, want %q", got, r.Complete(), want)
	}
}

func TestMissingExplainsWhyThereIsNoGPU(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		lib   string
		flags []string
		lines []string
		text  string
		hint  string
	}{
		{name: "no library", lib: "libnvidia-ml-nowhere.so.1", text: "cannot open shared object file", hint: "--nvml PATH"},
		{name: "not a library", lib: text, text: "file too short", hint: "--nvml PATH"},
		{name: "another library", lib: "libc.so.6", text: "it lacks nvmlInit_v2", hint: "--nvml PATH"},
		{name: "required function missing", flags: []string{"-DNO_nvmlInit_v2"}, text: "it lacks nvmlInit_v2", hint: "update the driver"},
		{name: "driver not loaded", lines: []string{"err.init=9"}, text: "not loaded", hint: "modprobe nvidia"},
		{name: "mismatch", lines: []string{"err.init=18"}, text: "do not match", hint: "reboot"},
		{name: "no permission", lines: []string{"err.init=4"}, text: "no permission", hint: "/dev/nvidiactl"},
		{name: "container without its GPUs", lines: []string{"err.init=999"}, text: "unknown driver error", hint: "restart the container"},
		{name: "unknown error code", lines: []string{"err.init=77"}, text: "NVML error 77", hint: "nvidia-smi"},
		{name: "GPUs cannot be counted", lines: []string{"err.count=999"}, text: "unknown driver error", hint: "nvidia-smi"},
		{name: "no GPU", lines: []string{"count=0"}, text: "it has no usable GPU", hint: "nvidia-smi -L"},
		{name: "crashes at init", lines: []string{"crash=init"}, text: "crashed: exit status 2: SIGSEGV", hint: "nvidia-smi"},
		{name: "hangs at init", lines: []string{"hang=init"}, text: "did not answer within 500ms", hint: "nvidia-smi"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			behave(t, tt.lines...)
			lib := tt.lib
			if lib == "" {
				lib = standIn(t, tt.flags...)
			}
			o := Options{Library: lib}
			if tt.name == "hangs at init" {
				o.InitDeadline = 500 * time.Millisecond
			}
			_, err := Open(context.Background(), o)
			var missing *Missing
			if !errors.As(err, &missing) {
				t.Fatalf("got %v, want a *Missing", err)
			}
			if !strings.Contains(missing.Text, tt.text) || !strings.Contains(missing.Hint, tt.hint) || !strings.Contains(missing.Hint, "--sim") {
				t.Errorf("got %+v, want %q and %q in it", missing, tt.text, tt.hint)
			}
		})
	}
}
