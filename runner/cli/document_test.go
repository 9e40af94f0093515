package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gpurun/state/schema"
)

// documents are what commands print with --json, and the lines of a stream.
var documents = map[string]any{
	"Status": schema.Status{}, "Problems": schema.Problems{}, "GPUs": schema.GPUs{}, "Queue": schema.Queue{}, "Usage": schema.Usage{},
	"Versions": schema.Versions{}, "Batches": schema.Batches{}, "History": schema.History{}, "Why": schema.Why{},
}

// document holds the last command's standard output against a type of the schema: no field
// is missing, none is unknown, times are UTC.
func document(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || documents[args[0]] == nil {
		ts.Fatalf("usage: document TYPE")
	}
	v := reflect.New(reflect.TypeOf(documents[args[0]]))
	out := ts.ReadFile("stdout")
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	ts.Check(d.Decode(v.Interface()))
	var again bytes.Buffer
	ts.Check(writeJSON(&again, v.Interface()))
	if again.String() != out {
		ts.Fatalf("not as the schema has it; it would be:\n%s", again.String())
	}
	if at := notUTC.FindString(out); at != "" {
		ts.Fatalf("%s is not UTC", at)
	}
}

// events holds each line of the last command's standard output against the schema.
func events(ts *testscript.TestScript, neg bool, args []string) {
	last := int64(0)
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var e schema.Event
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		ts.Check(d.Decode(&e))
		if e.Seq <= last || e.File == "" || e.Kind == "" || e.Time.Location() != time.UTC {
			ts.Fatalf("after event %d: %s", last, line)
		}
		last = e.Seq
	}
}

var notUTC = regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+[+-][0-9:]+"`)

// Errors of commands with --json are documents, too.
func TestProblemsDoc(t *testing.T) {
	d := problemsDoc(&failure{code: exitState, text: "it is running", hint: "gpurun stop"})
	if len(d.Problems) != 1 || d.Problems[0].Code != "state" || d.Problems[0].Text != "it is running" || *d.Problems[0].Hint != "gpurun stop" {
		t.Errorf("got %+v", d.Problems)
	}
	if d.Schema != schema.Version || time.Since(d.Now) > time.Minute || d.Now.Location() != time.UTC {
		t.Errorf("got %+v", d.Head)
	}
}
