package probe

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// A clock stands still until a test sets it.
type clock struct{ t time.Duration }

func (c *clock) now() time.Duration { return c.t }

func simFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sim.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func openSim(t *testing.T, spec string) (*Sim, *clock) {
	t.Helper()
	c := &clock{t: time.Hour}
	s, err := OpenSim(spec, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestParseInlineSpecs(t *testing.T) {
	tests := []struct {
		spec string
		want []gpu.Device // only Name and Total
	}{
		{"4x24GiB", slices.Repeat([]gpu.Device{{Name: "Simulated GPU", Total: 24 * gpu.GiB}}, 4)},
		{"24GiB", []gpu.Device{{Name: "Simulated GPU", Total: 24 * gpu.GiB}}},
		{"1x8GB, 2x80GiB:NVIDIA A100", []gpu.Device{{Name: "Simulated GPU", Total: 8e9}, {Name: "NVIDIA A100", Total: 80 * gpu.GiB}, {Name: "NVIDIA A100", Total: 80 * gpu.GiB}}},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			s, _ := openSim(t, tt.spec)
			var got []gpu.Device
			for i, d := range s.Devices() {
				if d.Index != i || d.UUID == "" || d.PCI == "" {
					t.Errorf("device %d: %+v", i, d)
				}
				got = append(got, gpu.Device{Name: d.Name, Total: d.Total})
			}
			if !reflect.DeepEqual(got, tt.want) || !s.Private() {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestInvalidSimulationsAreRefused(t *testing.T) {
	tests := []struct{ name, spec, file, want string }{
		{name: "no file", spec: "nosuch.yaml", want: `"nosuch.yaml" is not a file or a spec like 4x24GiB`},
		{name: "no unit", spec: "4x24", want: `"4x24" is not a file`},
		{name: "unknown unit", spec: "4x24Gi", want: `invalid size "24Gi"`},
		{name: "none", spec: "0x24GiB", want: "invalid count 0"},
		{name: "too many", spec: "99999999999999999999x24GiB", want: "at most 1024"},
		{name: "empty file", file: "", want: "no gpus"},
		{name: "unknown key", file: "gpus: [{memory: 1GiB, users: 3}]", want: "users"},
		{name: "bare size", file: "gpus:\n  - memory: 24\n", want: `line 2: size "24" has no unit`},
		{name: "bare time", file: "gpus:\n  - memory: 24GiB\n    load:\n      - {from: 10}\n", want: `line 4: invalid duration "10"`},
		{name: "no memory", file: "gpus: [{count: 2}]", want: "no memory given"},
		{name: "mistyped key", file: "gpus:\n  - {memory: 1GiB, loads: []}\n", want: `line 2: unknown key "loads"`},
		{name: "cores", file: "gpus: [{memory: 1GiB, numa: 0, cores: some}]", want: `cores: invalid list of cores "some" (try 0-7)`},
		{name: "cores without numa", file: "gpus: [{memory: 1GiB, cores: 0-3}]", want: "cores needs numa"},
		{name: "percent", file: "gpus: [{memory: 1GiB, load: [{util: 101}]}]", want: "invalid util 101"},
		{name: "mode", file: "gpus: [{memory: 1GiB, compute_mode: shared}]", want: `"shared" is not one of`},
		{name: "blind", file: "gpus: [{memory: 1GiB, blind: [name]}]", want: `"name" is not one of`},
		{name: "jobs", file: "gpus: [{memory: 1GiB}]\njobs: {util: -1}", want: "util -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := tt.spec
			if spec == "" {
				spec = simFile(t, tt.file)
			}
			_, err := OpenSim(spec, host.Boottime)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestSimulationFileDefinesDevices(t *testing.T) {
	path := simFile(t, "gpus: [{memory: 24GiB, count: 2}]")
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	a, _ := openSim(t, path)
	b, _ := openSim(t, link)
	other, _ := openSim(t, simFile(t, "gpus: [{memory: 24GiB, count: 2}]"))
	if !reflect.DeepEqual(a.Devices(), b.Devices()) || a.Private() {
		t.Errorf("one file: got %v and %v, private %v", a.Devices(), b.Devices(), a.Private())
	}
	if a.Devices()[0].UUID == other.Devices()[0].UUID || a.Devices()[0].UUID == a.Devices()[1].UUID {
		t.Errorf("different devices share a UUID: %v, %v", a.Devices(), other.Devices())
	}
}

func TestSimulatedLoadChangesOverTime(t *testing.T) {
	s, c := openSim(t, simFile(t, `
gpus:
  - memory: 24GiB
    load:
      - {from: 10s, to: 20s, user: alice, command: python, pid: 4711, memory: 20GiB, util: 90}
      - {from: 15s, memory: 2GiB}
    fails:
      - {from: 30s, to: 31s, error: fell off the bus}
outages:
  - {from: 40s}
`))
	type seen struct {
		Free  gpu.Bytes
		Procs []gpu.Process
		Util  int
		Err   string
	}
	at := func(d time.Duration) seen {
		c.t = time.Hour + d
		snap := s.Read(context.Background(), Query{Processes: true})
		if snap.Err != "" {
			return seen{Err: "all: " + snap.Err}
		}
		r := snap.Readings[0]
		if r.Err != "" {
			return seen{Err: r.Err}
		}
		return seen{r.Free, r.Processes, r.Samples[len(r.Samples)-1].Percent, ""}
	}
	alice := []gpu.Process{{PID: 4711, UID: 100000, User: "alice", Command: "python", Memory: 20 * gpu.GiB, Start: time.Hour + 10*time.Second}}
	for _, tt := range []struct {
		at   time.Duration
		want seen
	}{
		{0, seen{Free: 24 * gpu.GiB}},
		{10 * time.Second, seen{Free: 4 * gpu.GiB, Procs: alice, Util: 90}},
		{15 * time.Second, seen{Free: 2 * gpu.GiB, Procs: alice, Util: 90}},
		{20 * time.Second, seen{Free: 22 * gpu.GiB}},
		{30 * time.Second, seen{Err: "fell off the bus"}},
		{31 * time.Second, seen{Free: 22 * gpu.GiB}},
		{40 * time.Second, seen{Err: "all: no readings"}},
	} {
		if got := at(tt.at); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("at %v: got %+v, want %+v", tt.at, got, tt.want)
		}
	}
}

func TestBlindValuesAreUnknown(t *testing.T) {
	s, _ := openSim(t, simFile(t, "gpus: [{memory: 24GiB, blind: [util, memory, processes], load: [{user: bob, memory: 1GiB, util: 5}]}]"))
	got := s.Read(context.Background(), Query{Processes: true}).Readings[0]
	want := gpu.Reading{UUID: s.Devices()[0].UUID, Total: 24 * gpu.GiB, Free: -1, Used: -1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPlacedJobsUseTheirMemory(t *testing.T) {
	s, c := openSim(t, simFile(t, "gpus: [{memory: 24GiB, count: 2}]\njobs: {take: 10s, linger: 2s, util: 70}"))
	ids := []gpu.UUID{s.Devices()[1].UUID}
	used := func(d time.Duration) (gpu.Bytes, int) {
		c.t = time.Hour + d
		full := s.Read(context.Background(), Query{UUIDs: ids, Processes: true}).Readings
		quick := s.Read(context.Background(), Query{UUIDs: ids}).Readings
		if len(full) != 1 || full[0].UUID != ids[0] || quick[0].Listed || quick[0].Samples != nil || quick[0].Free != full[0].Free {
			t.Fatalf("got %+v, quick %+v", full, quick)
		}
		if n := len(full[0].Processes); n > 0 && full[0].Processes[0].Attempt != "u1" {
			t.Errorf("got %+v", full[0].Processes)
		}
		return full[0].Used, len(full[0].Processes)
	}
	s.Placed("u1", 42, gpu.Grant{UUIDs: ids, Memory: 8 * gpu.GiB})
	type row struct {
		used  gpu.Bytes
		procs int
	}
	var got []row
	note := func(d time.Duration) {
		u, n := used(d)
		got = append(got, row{u, n})
	}
	note(0)
	note(5 * time.Second)
	note(10 * time.Second)
	s.Removed("u1")
	note(11 * time.Second)
	note(12 * time.Second)
	want := []row{{0, 1}, {4 * gpu.GiB, 1}, {8 * gpu.GiB, 1}, {8 * gpu.GiB, 0}, {0, 0}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A busy GPU and one with little free memory are admitted once their load is gone.
func TestPoolUsesSimulatedGPUsOnceFree(t *testing.T) {
	s, c := openSim(t, simFile(t, `
gpus:
  - memory: 24GiB
    load: [{to: 30s, user: alice, memory: 1GiB, util: 90}]
  - memory: 24GiB
    load: [{to: 60s, user: bob, memory: 20GiB}]
`))
	p := gpu.NewPool(s.Devices(), gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow, Pick: gpu.FirstFit, UID: os.Getuid()})
	var got []int
	for at := time.Duration(0); at <= 60*time.Second; at += 5 * time.Second {
		c.t = time.Hour + at
		p.Observe(s.Read(context.Background(), Query{Processes: true}))
		n := 0
		for _, v := range p.Admit(c.t, gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB, MaxUtil: 30}) {
			if v.OK {
				n++
			}
		}
		got = append(got, n)
	}
	if want := []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The YAML examples in docs/reference/simulation.md must be valid simulations.
func TestExamplesInDocsAreValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), "```")
	n := 0
	for i := 1; i < len(parts); i += 2 {
		if text, ok := strings.CutPrefix(parts[i], "yaml\n"); ok {
			n++
			openSim(t, simFile(t, text))
		}
	}
	if n < 2 {
		t.Errorf("found %d examples, want at least 2", n)
	}
}

func FuzzSimulation(f *testing.F) {
	f.Add("4x24GiB", "gpus: [{memory: 24GiB, count: 2, load: [{from: 1s, to: 2s, user: bob, util: 3, memory: 1GiB}]}]")
	f.Add("2x24GiB,1x80GiB:A100", "gpus: [{memory: 1GiB, fails: [{to: 3s}]}]\njobs: {take: 1s}\noutages: [{from: 1h}]")
	f.Fuzz(func(t *testing.T, spec, file string) {
		path := simFile(t, file)
		for _, text := range []string{spec, path} {
			if text != path {
				if _, looks, _ := parseInline(text); !looks {
					continue
				}
			}
			s, err := OpenSim(text, func() time.Duration { return time.Minute })
			if err != nil {
				continue
			}
			s.Placed("u", 1, gpu.Grant{UUIDs: []gpu.UUID{s.Devices()[0].UUID}, Memory: gpu.GiB})
			for _, r := range s.Read(context.Background(), Query{Processes: true}).Readings {
				if r.Err == "" && r.Free >= 0 && (r.Free+r.Used != r.Total || r.Used < 0) {
					t.Errorf("%q: memory does not add up: %+v", text, r)
				}
			}
		}
	})
}
