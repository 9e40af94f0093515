//go:build linux && cgo

package probe

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpurun/gpu"
)

// sysPCIVariable names a folder that a test's child uses instead of sysfs.
const sysPCIVariable = "GPURUN_TEST_SYSPCI"

func links(r *reader) map[string]gpu.Closeness {
	got := map[string]gpu.Closeness{}
	for _, d := range r.Devices() {
		for other, c := range d.Links {
			got[string(d.UUID[4:12]+" "+other[4:12])] = c
		}
	}
	return got
}

func TestLinksBetweenGPUs(t *testing.T) {
	both := func(c gpu.Closeness) map[string]gpu.Closeness {
		return map[string]gpu.Closeness{"00000000 00000001": c, "00000001 00000000": c}
	}
	tests := []struct {
		name  string
		flags []string
		lines []string
		want  map[string]gpu.Closeness
	}{
		{name: "NVLink, whatever the PCI topology", lines: []string{"nvlink.0=1", "ancestor.0=1:50"}, want: both(gpu.NVLink)},
		{name: "one switch", lines: []string{"ancestor.0=1:10"}, want: both(gpu.Switch)},
		{name: "several switches", lines: []string{"ancestor.0=1:20"}, want: both(gpu.Switch)},
		{name: "one host bridge", lines: []string{"ancestor.0=1:30"}, want: both(gpu.Node)},
		{name: "one node", lines: []string{"ancestor.0=1:40"}, want: both(gpu.Node)},
		{name: "different nodes", lines: []string{"ancestor.0=1:50"}, want: both(gpu.Far)},
		{name: "topology unknown", want: map[string]gpu.Closeness{}},
		{name: "only NVLink known", lines: []string{"err.ancestor=999", "nvlink.1=0"}, want: both(gpu.NVLink)},
		{name: "an old driver", flags: []string{"-DOLD", "-DNO_nvmlDeviceGetP2PStatus", "-DNO_nvmlDeviceGetTopologyCommonAncestor"}, want: map[string]gpu.Closeness{}},
		{name: "in MIG mode", lines: []string{"nvlink.0=1", "mig.0=3"}, want: map[string]gpu.Closeness{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			behave(t, tt.lines...)
			if got := links(open(t, Options{Library: standIn(t, tt.flags...)})); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A GPU that is silent at Open reports its connections once it responds.
func TestSilentDeviceReportsLinksLater(t *testing.T) {
	behave(t, "nvlink.0=1", "err.uuid.1=999")
	r := open(t, Options{Library: standIn(t)})
	if got := links(r); len(got) != 0 {
		t.Errorf("got links %v of a silent device", got)
	}
	behave(t, "nvlink.0=1")
	full(r)
	if got := links(r); got["00000001 00000000"] != gpu.NVLink {
		t.Errorf("got %v", got)
	}
}

func TestNUMANodesAreRead(t *testing.T) {
	sys := t.TempDir()
	for name, text := range map[string]string{
		"0000:80:00.0/numa_node": "1\n", "0000:80:00.0/local_cpulist": "16-31\n",
		"0000:70:00.0/numa_node": "-1\n", "0000:70:00.0/local_cpulist": "0-31\n",
	} {
		path := filepath.Join(sys, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(sysPCIVariable, sys)
	behave(t, "count=3")
	got := map[gpu.UUID][2]string{}
	for _, d := range open(t, Options{Library: standIn(t)}).Devices() {
		got[d.UUID] = [2]string{d.NUMA, d.Cores}
	}
	want := map[gpu.UUID][2]string{gpu0: {"1", "16-31"}, gpu1: {}, "GPU-00000002-0000-0000-0000-000000000000": {}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	behave(t, "mig.0=1")
	for _, d := range open(t, Options{Library: standIn(t)}).Devices() {
		if d.MIG && (d.NUMA != "1" || d.Cores != "16-31") {
			t.Errorf("a MIG instance is on node %q, cores %q, want those of its GPU", d.NUMA, d.Cores)
		}
	}
}

func TestSimulatedTopologyIsReported(t *testing.T) {
	s, _ := openSim(t, simFile(t, `
gpus:
  - {memory: 24GiB, count: 2, nvlink: a, switch: 0, numa: 0, cores: 0-3}
  - {memory: 24GiB, count: 2, switch: 0, numa: 0}
  - {memory: 24GiB, numa: 1, cores: "4-7"}
`))
	d := s.Devices()
	if d[1].Links[d[0].UUID] != gpu.NVLink || d[2].Links[d[0].UUID] != gpu.Switch || d[3].Links[d[2].UUID] != gpu.Switch || len(d[4].Links) != 0 {
		t.Errorf("got %+v", d)
	}
	if d[1].NUMA != "0" || d[1].Cores != "0-3" || d[3].Cores != "" || d[4].NUMA != "1" {
		t.Errorf("got %+v", d)
	}
}
