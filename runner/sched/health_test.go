package sched

import (
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

func TestEndsThatMayBeTheGPUsFault(t *testing.T) {
	for _, row := range []struct {
		name string
		end  Ended
		want bool
	}{
		{"success", Ended{}, false},
		{"exit 1", Ended{End: state.End{ExitCode: 1}}, false},
		{"a CUDA error", Ended{Cause: DeviceFault, End: state.End{ExitCode: 1}}, true},
		{"out of GPU memory", Ended{Cause: GPUMemory, End: state.End{ExitCode: 1}}, false},
		{"out of host memory", Ended{Cause: HostMemory, End: state.End{ExitCode: -1, Signal: "SIGKILL"}}, false},
		{"a crash", Ended{End: state.End{ExitCode: -1, Signal: "SIGSEGV"}}, true},
		{"a crash, as a shell reports it", Ended{End: state.End{ExitCode: 139}}, true},
		{"an abort, as a shell reports it", Ended{End: state.End{ExitCode: 134}}, true},
		{"killed", Ended{End: state.End{ExitCode: -1, Signal: "SIGKILL"}}, true},
		{"ended by SIGTERM", Ended{End: state.End{ExitCode: -1, Signal: "SIGTERM"}}, false},
		{"interrupted", Ended{End: state.End{ExitCode: -1, Signal: "SIGINT"}}, false},
		{"command not found", Ended{End: state.End{ExitCode: 127}}, false},
		{"lost", Ended{End: state.End{ExitCode: -1, Lost: true}}, true},
		{"never ran", Ended{End: state.End{ExitCode: -1, Lost: true, Void: true}}, false},
		{"timeout", Ended{End: state.End{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyTimeout}}, false},
		{"stopped", Ended{End: state.End{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyCancelled}}, false},
		{"an output is missing", Ended{Failed: "output x missing", Cause: DeviceFault}, true},
		{"left work running", Ended{End: state.End{LeftRunning: "python 7"}}, false},
	} {
		h, a := newHealth(), &attempt{uniID: "a.1", grant: gpu.Grant{UUIDs: []gpu.UUID{uuid(0)}}}
		f := a.end(row.end, Now{Boot: time.Hour, Wall: epoch})
		if got := h.symptoms(time.Hour, a, f, row.end).died; got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
		a.adopted = true
		if h.symptoms(time.Hour, a, f, row.end).died {
			t.Errorf("%s: an attempt of an earlier run counts as well", row.name)
		}
	}
}

// dying simulates attempts on devices to test health.
type dying struct {
	health
	now       time.Duration
	elsewhere bool // jobs could run on other devices
}

func (d *dying) another(int32, []gpu.UUID) bool { return d.elsewhere }

// end ends a job's attempt on a GPU after some seconds. It returns why the end spends no retry, and the
// devices to read.
func (d *dying) end(job int32, on int, seconds float64, ev Ended) (excuse string, read []gpu.UUID) {
	d.now += time.Duration(seconds) * time.Second
	name := string(rune('a' + job))
	a := &attempt{job: job, name: name, n: 1, began: d.now - time.Duration(seconds)*time.Second, grant: gpu.Grant{Indices: []int{on}, UUIDs: []gpu.UUID{uuid(on)}}}
	f := a.end(ev, Now{Boot: d.now, Wall: epoch})
	f.Seconds = seconds
	s := d.symptoms(d.now, a, f, ev)
	if f.ErrorType != "" {
		if f.Uncharged = d.excused(a, s, f, "", "", d.another); f.Uncharged != "" {
			d.excuse(job)
		}
	}
	return f.Uncharged, d.ended(d.now, a, s, f, d.another)
}

func (d *dying) examined() (quarantineDecision, bool) {
	return d.examine(d.now, func(func(*attempt) bool) {}, d.another)
}

var crash = Ended{End: state.End{ExitCode: -1, Signal: "SIGSEGV"}}

// A device on which several jobs died in a row rests. Once one of the jobs succeeds elsewhere, the device
// is quarantined.
func TestDeviceIsQuarantinedOnceItsJobsSucceedElsewhere(t *testing.T) {
	d := &dying{health: newHealth(), now: time.Hour, elsewhere: true}
	for job := range int32(suspectAfter) {
		if _, convicted := d.examined(); convicted || len(d.resting) > 0 {
			t.Fatalf("after %d deaths: convicted %v, resting %v; want neither", job, convicted, d.resting)
		}
		if excuse, _ := d.end(job, 0, 3, crash); excuse != "GPU 0 may be at fault" {
			t.Errorf("job %d is excused because %q", job, excuse)
		}
	}
	if _, convicted := d.examined(); convicted || len(d.resting) != 1 || d.resting[0] != uuid(0) {
		t.Fatalf("after %d deaths: convicted %v, resting %v; want only GPU 0 resting", suspectAfter, convicted, d.resting)
	}
	d.end(0, 1, 3, Ended{})
	v, convicted := d.examined()
	if !convicted || v.id != uuid(0) || v.why != "3 attempts in a row, of 3 jobs, died on it" || len(v.charged) > 0 || v.evidence[1] != "a then succeeded on GPU 1" {
		t.Errorf("after a success elsewhere: convicted %v, %+v", convicted, v)
	}
	if _, again := d.examined(); again || len(d.resting) > 0 {
		t.Errorf("after the conviction: convicted again %v, resting %v", again, d.resting)
	}
}

func TestHealthyDeviceIsNotQuarantined(t *testing.T) {
	for name, play := range map[string]func(d *dying){
		"one job died": func(d *dying) { d.end(0, 0, 3, crash); d.end(0, 0, 3, crash); d.end(0, 0, 3, crash) },
		"a success in between": func(d *dying) {
			d.end(0, 0, 3, crash)
			d.end(1, 0, 3, Ended{})
			d.end(2, 0, 3, crash)
			d.end(3, 0, 3, crash)
		},
		"the jobs ran long": func(d *dying) { d.end(0, 0, 90, crash); d.end(1, 0, 90, crash); d.end(2, 0, 90, crash) },
		"a job died elsewhere too": func(d *dying) {
			d.end(0, 1, 3, crash)
			d.end(0, 0, 3, crash)
			d.end(1, 0, 3, crash)
			d.end(2, 0, 3, crash)
		},
		"it has rested enough": func(d *dying) {
			d.end(0, 0, 3, crash)
			d.end(1, 0, 3, crash)
			d.end(2, 0, 3, crash)
			d.now += suspectFor
		},
		"there is no other GPU": func(d *dying) {
			d.elsewhere = false
			d.end(0, 0, 3, crash)
			d.end(1, 0, 3, crash)
			d.end(2, 0, 3, crash)
		},
	} {
		d := &dying{health: newHealth(), now: time.Hour, elsewhere: true}
		play(d)
		if v, convicted := d.examined(); convicted || len(d.resting) > 0 {
			t.Errorf("%s: got the decision %+v, resting %v; want neither", name, v, d.resting)
		}
	}
}

// A CUDA error blames the device: the job moves to another one, and the next full reading decides. If a
// job dies with such an error on two devices, the job is at fault.
func TestSignatureBlamesTheDevice(t *testing.T) {
	cuda := Ended{Cause: DeviceFault, End: state.End{ExitCode: 1}}
	seen := func(d *dying, x int) gpu.Observation {
		return gpu.Observation{At: d.now, Readings: []gpu.Reading{{UUID: uuid(0), Health: &gpu.Health{Xid: x, Uncorrected: -1}}}}
	}
	d := &dying{health: newHealth(), now: time.Hour, elsewhere: true}
	if excuse, read := d.end(0, 0, 3, cuda); excuse == "" || len(read) != 1 || read[0] != uuid(0) || d.avoid(0) == "" {
		t.Errorf("after a CUDA error: excused because %q, reads %q, avoids %q", excuse, read, d.avoid(0))
	}
	if found, _ := d.observe(d.now, seen(d, 0), true); found != nil {
		t.Errorf("after a quick reading: got %+v, want no decision", found)
	}
	if found, _ := d.observe(d.now, seen(d, 0), false); len(found) != 1 || found[0].id != uuid(0) {
		t.Errorf("after a full reading: got %+v, want GPU 0 quarantined", found)
	}
	if excuse, _ := d.end(0, 1, 3, cuda); excuse != "" {
		t.Errorf("a death on a second device is excused because %q", excuse)
	}
	d = &dying{health: newHealth(), now: time.Hour, elsewhere: true}
	d.end(0, 0, 3, cuda)
	if found, cleared := d.observe(d.now, seen(d, gpu.Contained), false); found != nil || len(cleared) != 1 || d.avoid(0) != "" {
		t.Errorf("after a contained error: got %+v, cleared %v, avoids %q", found, cleared, d.avoid(0))
	}
}

func TestJobIsExcusedOnlyAFewTimes(t *testing.T) {
	d := &dying{health: newHealth(), now: time.Hour, elsewhere: true}
	for i := range maxExcused {
		d.end(9, i, 3, crash) // another job died there first
		if excuse, _ := d.end(0, i, 3, crash); excuse == "" {
			t.Errorf("death %d is not excused", i+1)
		}
	}
	d.end(9, 7, 3, crash)
	if excuse, _ := d.end(0, 7, 3, crash); excuse != "" || d.exhausted(0) {
		t.Errorf("death %d: excused because %q, exhausted %v; want neither", maxExcused+1, excuse, d.exhausted(0))
	}
	if d.excuse(0) || !d.exhausted(0) {
		t.Error("the job is excused once more")
	}
}

// A job whose last failure spent no retry would have been retried, so it is pending, not failed.
func TestJobWithUnchargedFailureIsPending(t *testing.T) {
	w := newWorld(t)
	w.job("a", "true", jobspec.Spec{}, "")
	for uncharged, want := range map[string]state.Phase{"": state.Failed, "GPU 0 may be at fault": state.Pending} {
		h := state.NewHistory()
		h.SetRun(0, state.Fact{Kind: state.KindRun, Time: w.now.Wall}, state.Fact{})
		h.Apply(0, state.Fact{Kind: state.KindEnd, Time: w.now.Wall, Job: "a", Key: w.b.Jobs[0].Key.String(), State: state.Failed, Uncharged: uncharged})
		if got := Phases(w.b, h)[0]; got != want {
			t.Errorf("uncharged %q: the job is %s, want %s", uncharged, got, want)
		}
	}
}
