package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// hostile is a malicious job name or output.
const hostile = `</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>`

func attempt(name, key string, n int, end state.Phase, cause schema.Cause) schema.AttemptRow {
	a := schema.AttemptRow{File: "/j.yaml", Job: name, Key: key, Attempt: schema.Attempt{N: n, State: end, Started: schema.Time(noon), Ended: schema.Time(noon.Add(time.Minute))}}
	a.Log = &schema.Log{Path: "/logs/" + key}
	if cause.Code != "" {
		a.Cause = &cause
	}
	return a
}

// exampleInput returns a batch with two jobs that failed with the same error, one with another
// error, one success, and one job that is no longer in the job file.
func exampleInput() *Input {
	k := &Input{
		Secrets: []string{"s3cret"},
		Status:  &schema.Status{Head: schema.At(noon), Batch: schema.Batch{Files: []schema.File{{Path: "/j.yaml"}}}, Run: &schema.Run{Params: map[string]string{"api_key": "s3cret"}}},
		Starts:  map[ID]*state.Fact{}, Lines: func(l *schema.Log) []string { return []string{"of " + l.Path, "token=s3cret " + hostile} },
	}
	add := func(name, key string, end state.Phase, line string, config map[string]string, present bool) {
		f := &state.Fact{Kind: state.KindEnd, State: end, Line: line, ErrorType: "exit"}
		if end == state.Succeeded {
			f.ErrorType = ""
		}
		k.Starts[ID{"/j.yaml", key}] = &state.Fact{Commands: []string{"python t.py --token s3cret s3cret"}, Traits: config, Params: map[string]string{"hf_token": "s3cret", "lr": "0.1"}}
		if !present {
			k.Starts[ID{"/j.yaml", key}].Params = nil // no parameters
		}
		row := attempt(name, key, 1, end, schema.Cause{})
		if c := schema.CauseOf(f); c != nil {
			row.Cause = c
		}
		k.Attempts = append(k.Attempts, row)
		if present {
			k.Status.Jobs = append(k.Status.Jobs, &schema.Job{File: "/j.yaml", Name: name, Key: key, State: end, Cause: row.Cause, Attempt: &row.Attempt, Params: map[string]string{"hf_token": "s3cret"}})
		}
	}
	k.Runs = []schema.RunRow{{Alike: []schema.Alike{{Cause: schema.Cause{Code: "exit", Text: "no login for s3cret"}}}}}
	add("one", "k1", state.Failed, "no login for s3cret", map[string]string{"config a": "1", "config b.c": "2", "config secret": "s3cret", "env X": "hash"}, true)
	add("two", "k2", state.Failed, "ValueError: 7", map[string]string{"config a": "1", "config b.c": "3"}, true)
	add("three", "k3", state.Failed, "ValueError: 8", nil, true)
	add("four", "k4", state.Succeeded, "", nil, true)
	add(hostile, "k5", state.Failed, "ValueError: 9", nil, false)
	return k
}

func TestBuildGroupsFailuresAndMasksSecrets(t *testing.T) {
	r := Build(exampleInput())
	var got []string
	for _, f := range r.Failures {
		got = append(got, fmt.Sprint(f.Count, f.Jobs, f.Lines[0]))
	}
	if want := []string{"2 [two three]of /logs/k2", "1 [one]of /logs/k1"}; !reflect.DeepEqual(got, want) { // the largest group first
		t.Errorf("failures: got %q, want %q", got, want)
	}
	if j := r.Jobs; len(j) != 5 || *j[0].Failure != 1 || *j[2].Failure != 0 || j[3].Failure != nil || !j[4].Former || j[4].Name != hostile || j[4].Failure != nil {
		t.Errorf("jobs: got %+v", j)
	}
	if want := map[string]string{"a": "1"}; !reflect.DeepEqual(r.Config, want) {
		t.Errorf("common config: got %v, want %v", r.Config, want)
	}
	if want := map[string]string{"b.c": "2", "secret": "***"}; !reflect.DeepEqual(r.Jobs[0].Config, want) {
		t.Errorf("config of the first job: got %v, want %v", r.Jobs[0].Config, want)
	}
	for _, j := range r.Jobs {
		if j.Params == nil || j.Tags == nil && j.Former || j.Attempts == nil || j.Commands == nil || j.Inputs == nil || j.Config == nil {
			t.Errorf("a list or map is null: %+v", j)
		}
	}
	data, err := json.Marshal(r)
	if err != nil || bytes.Contains(data, []byte("s3cret")) {
		t.Errorf("error, or a secret in the report: %s, %v", data, err)
	}
}

// The page runs only its own script, whatever the data contains.
func TestPageRunsNoInjectedScript(t *testing.T) {
	k := exampleInput()
	for _, jobs := range []int{1, 3000} {
		for i := range jobs {
			k.Status.Jobs = append(k.Status.Jobs, &schema.Job{Name: fmt.Sprint(hostile, i), Commands: []string{hostile}})
		}
		r := Build(k)
		var page bytes.Buffer
		if err := HTML(&page, r); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		if n := strings.Count(strings.ToLower(text), "<script"); n != strings.Count(script, "<script")+2 {
			t.Errorf("got %d script tags, want two and those in the bundle", n)
		}
		if strings.Contains(text, "<img") && !strings.Contains(script, "<img") || strings.Count(strings.ToLower(text), "</script") != 2 || strings.Count(text, "</style") != 1 {
			t.Error("data or a bundle ends its element")
		}
		for _, part := range []string{script, style} {
			if !strings.Contains(text, "'"+hash(part)+"'") || !strings.Contains(text, ">"+part+"</") {
				t.Error("a bundle or its hash is missing from the page")
			}
		}
		m := regexp.MustCompile(`(?s)<script type="([a-z/]+)" id="data">(.*?)</script>`).FindStringSubmatch(text)
		data := []byte(m[2])
		if want := map[int]string{1: "application/json", 3000: "application/gzip"}[jobs]; m[1] != want {
			t.Errorf("%d jobs: got %s, want %s", jobs, m[1], want)
		}
		if m[1] == "application/gzip" {
			packed, err := base64.StdEncoding.DecodeString(m[2])
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			data, _ = io.ReadAll(z)
		}
		var again schema.Report
		if err := json.Unmarshal(data, &again); err != nil || len(again.Jobs) != len(r.Jobs) || again.Jobs[len(again.Jobs)-1].Name != hostile {
			t.Errorf("the page has other data than the report: %d jobs, %v", len(again.Jobs), err)
		}
	}
}

func TestReadingsMergeEqualWaits(t *testing.T) {
	var g state.GPUReadings
	for i, code := range []gpu.Code{"", gpu.Claimed, gpu.Claimed, "", gpu.Busy} {
		p := state.Pressure{Level: gpu.Level{UUID: "GPU-0", Used: 2 * gpu.GiB, Ours: gpu.GiB, Util: 10 * i, Jobs: 1}, Code: code}
		if code == gpu.Claimed {
			p.User = "bob"
		}
		g.Add(noon.Add(time.Duration(i)*5*time.Second), []state.Pressure{p, {Level: gpu.Level{UUID: "GPU-1", Index: 1, Used: -1, Ours: -1, Util: -1}}})
	}
	r := Readings(&g)
	one := r.GPUs[0]
	if len(r.Time) != 5 || r.Step != 5 || *one.Used[0] != 2*gpu.GiB || *one.Ours[0] != gpu.GiB || *one.Util[3] != 30 || r.GPUs[1].Used[0] != nil {
		t.Errorf("got %+v", r)
	}
	bob := "bob"
	want := []schema.GPUWait{
		{From: noon.Add(5 * time.Second), To: noon.Add(15 * time.Second), Code: gpu.Claimed, User: &bob},
		{From: noon.Add(20 * time.Second), To: noon.Add(25 * time.Second), Code: gpu.Busy},
	}
	if !reflect.DeepEqual(one.Waits, want) {
		t.Errorf("waits: got %+v", one.Waits)
	}
	if Readings(nil) != nil || Readings(&state.GPUReadings{}) != nil {
		t.Error("got readings of an empty record")
	}
}

func TestThinKeepsExtremesAndEnds(t *testing.T) {
	steps, values := make([]float64, 100_000), make([]*float64, 100_000)
	for i := range values {
		steps[i], values[i] = float64(i), schema.Finite(math.Sin(float64(i)/1000))
	}
	values[31_417], values[2_718], values[9] = schema.Finite(50), schema.Finite(-50), nil
	c := schema.ReportCurve{Job: "j", UniID: "u", Curve: schema.Curve{Metric: "loss", Steps: steps, Values: values}}
	got := thin([]schema.ReportCurve{c})[0]
	low, high, gaps := 0.0, 0.0, 0
	for _, v := range got.Values {
		if v == nil {
			gaps++
			continue
		}
		low, high = min(low, *v), max(high, *v)
	}
	if n := len(got.Values); n > maxPoints || n < maxPoints/2 || low != -50 || high != 50 || gaps != 1 || *got.Values[n-1] != *values[99_999] {
		t.Errorf("got %d points from %v to %v with %d gaps", n, low, high, gaps)
	}
}
