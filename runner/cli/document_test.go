package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/state/schema"
)

// documents are zero values of the types that commands print with --json.
var documents = map[string]any{
	"Status": schema.Status{}, "Problems": schema.Problems{}, "GPUs": schema.GPUs{}, "Queue": schema.Queue{}, "Usage": schema.Usage{}, "BatchUsage": schema.BatchUsage{},
	"Versions": schema.Versions{}, "Batches": schema.Batches{}, "History": schema.History{}, "Why": schema.Why{}, "Report": schema.Report{},
}

// document checks that the last command's standard output has exactly the fields of a type in the
// schema, and only times in UTC.
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
		ts.Fatalf("the output differs from the schema, want:\n%s", again.String())
	}
	if at := notUTC.FindString(out); at != "" {
		ts.Fatalf("%s is not UTC", at)
	}
}

// events checks that each line of the last command's standard output is an event of the schema, and
// that the events are in the order of their numbers.
func events(ts *testscript.TestScript, neg bool, args []string) {
	last := int64(0)
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var e schema.Event
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		ts.Check(d.Decode(&e))
		if e.Seq <= last || e.File == "" || e.Kind == "" || e.Time.Location() != time.UTC {
			ts.Fatalf("invalid event after number %d: %s", last, line)
		}
		last = e.Seq
	}
}

// agrees compares the attempts in the last command's document with a journal, to which each job
// appends its uni_id, "start" or "end", and the time in seconds. The document must have NUMBER
// attempts, and each of them must be in the journal.
func agrees(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: agrees JOURNAL NUMBER")
	}
	journal := map[string]float64{}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		f := strings.Fields(line)
		at, err := strconv.ParseFloat(f[2], 64)
		ts.Check(err)
		journal[f[0]+" "+f[1]] = at
	}
	var doc struct {
		Jobs []struct {
			Name     string
			Attempt  *schema.Attempt // in a status: the last
			Attempts json.RawMessage // in a report: all; otherwise their number
		}
		Attempts []schema.AttemptRow
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	for _, j := range doc.Jobs {
		var all []schema.Attempt
		if j.Attempt != nil {
			all = append(all, *j.Attempt)
		} else {
			ts.Check(json.Unmarshal(j.Attempts, &all))
		}
		for _, a := range all {
			doc.Attempts = append(doc.Attempts, schema.AttemptRow{Job: j.Name, Attempt: a})
		}
	}
	for _, a := range doc.Attempts {
		for what, at := range map[string]*time.Time{"start": a.Started, "end": a.Ended} {
			said, ok := journal[*a.UniID+" "+what]
			d := float64(at.UnixNano())/1e9 - said
			if what == "start" {
				d = -d
			}
			if !ok || d < -0.1 || d > 60 { // an attempt starts before its first command and ends after its last
				ts.Fatalf("%s of %s, attempt %d: %s, but the journal says %f (%t)", what, a.Job, a.N, at, said, ok)
			}
		}
	}
	if fmt.Sprint(len(doc.Attempts)) != args[1] {
		ts.Fatalf("got %d attempts, want %s", len(doc.Attempts), args[1])
	}
}

var notUTC = regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+[+-][0-9:]+"`)

func TestJSONErrorsMatchSchema(t *testing.T) {
	d := problemsDoc(&batches.Failure{Code: batches.ExitState, Text: "it is running", Hint: "gpurun stop"})
	if len(d.Problems) != 1 || d.Problems[0].Code != "state" || d.Problems[0].Text != "it is running" || *d.Problems[0].Hint != "gpurun stop" {
		t.Errorf("got %+v", d.Problems)
	}
	if d.Schema != schema.Version || time.Since(d.Now) > time.Minute || d.Now.Location() != time.UTC {
		t.Errorf("got %+v", d.Head)
	}
}

// checkCommands checks that gpurun accepts every command line on a page.
func checkCommands(t *testing.T, page string, least int) (doc []byte) {
	t.Helper()
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile("(?m)^ *gpurun (.*)$|`gpurun ([^`]*)`").FindAllStringSubmatch(string(doc), -1) {
		args := strings.Fields(strings.NewReplacer("'", "", "[", "", "]", "", "SEQ", "1").Replace(m[1] + m[2]))
		parser, err := newParser(&grammar{}, newApp(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(args) == 1 { // only the program's name
			if regexp.MustCompile(`^[a-z]+$`).MatchString(args[0]) && !slices.Contains(shownCommands(), args[0]) {
				t.Errorf("gpurun %s: no such command", args[0])
			}
			continue
		}
		if _, err := parser.Parse(args); err != nil {
			t.Errorf("gpurun %s: %v", strings.Join(args, " "), err)
		}
		n++
	}
	if n < least {
		t.Errorf("%s has %d command lines, want at least %d", page, n, least)
	}
	return doc
}

func TestReferenceHasOnlyValidCommands(t *testing.T) {
	t.Parallel()
	pages, _ := filepath.Glob("../../docs/[ir]*/*.md")
	for _, page := range pages {
		if strings.HasSuffix(page, "/commands.md") {
			continue // generated from the grammar
		}
		checkCommands(t, page, 0)
	}
}

func TestAgentInstructionsHaveOnlyValidCommands(t *testing.T) {
	t.Parallel()
	doc := checkCommands(t, "../../docs/guide/agents.md", 15)
	if !strings.HasPrefix(string(doc), "---\nname: gpurun\ndescription: ") {
		t.Error("agents.md has no front matter")
	}
	sample := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(doc)
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	for name, text := range map[string][]byte{path: sample[1], filepath.Join(filepath.Dir(path), "train.py"): nil, filepath.Join(filepath.Dir(path), "table.py"): nil} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := jobspec.Load([]string{path}, jobspec.Options{Lint: true}); err != nil || len(b.Jobs) != 6 || len(b.Warnings) != 0 {
		t.Errorf("job file of agents.md: %v, %+v", err, b)
	}
}
