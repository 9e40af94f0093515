package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/results"
	"gpurun/state"
	"gpurun/state/schema"
)

const (
	readToken    = "1111111111111111111111111111111111111111111111111111111111111111"
	controlToken = "2222222222222222222222222222222222222222222222222222222222222222"
	batchA       = "00000000000000aa"
)

// fake is a source with one batch, which tests can change.
type fake struct {
	dir string

	mu     sync.Mutex
	view   *schema.View
	looked int
	asked  []string // calls that requests made on the batch
}

func newFake(t testing.TB, jobs int) *fake {
	f := &fake{dir: t.TempDir()}
	v := &schema.View{Status: schema.Status{
		Head: schema.At(time.Now()), Batch: schema.Batch{ID: batchA, Files: []schema.File{{Path: "/home/me/jobs.yaml", Dialect: "native"}}, WorkDir: "/home/me"},
		Counts: schema.CountsOf(map[state.Phase]int{state.Pending: jobs}), Alike: []schema.Alike{}, Warnings: []schema.Problem{},
	}}
	for i := range jobs {
		v.Jobs = append(v.Jobs, fakeJob(i, state.Pending))
	}
	f.view = v
	return f
}

func fakeJob(i int, s state.Phase) *schema.Job {
	return &schema.Job{
		File: "/home/me/jobs.yaml", Name: fmt.Sprintf("train-s%d", i), Key: fmt.Sprintf("%032x", i), Params: map[string]string{"seed": fmt.Sprint(i)},
		Tags: []string{}, Needs: []string{}, Commands: []string{"python train.py"}, State: s,
	}
}

// set replaces jobs.
func (f *fake) set(jobs ...*schema.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &schema.View{Status: f.view.Status}
	v.Jobs = slices.Clone(v.Jobs)
	for _, j := range jobs {
		i := slices.IndexFunc(v.Jobs, func(o *schema.Job) bool { return o.Key == j.Key })
		v.Jobs[i] = j
	}
	f.view = v
}

func (f *fake) Host(context.Context) (*schema.GPUs, error) {
	used, util, user := gpu.Bytes(1<<30), 42, "<img src=x onerror=alert(1)>"
	g := schema.GPU{UUID: "GPU-1", Name: `A "100"`, Total: &used, Used: &used, Free: &used, Util: &util, Jobs: []string{}, Quarantines: []schema.Quarantine{},
		Processes: []schema.Process{{PID: 7, User: &user, Command: schema.Known("python --api-key hushhush")}}, Claims: []schema.Claim{{User: &user, Job: "/etc/passwd"}}}
	return &schema.GPUs{Head: schema.At(time.Now()), GPUs: []schema.GPU{g}, Waiting: []schema.Waiter{}}, nil
}

func (f *fake) Usage(context.Context, int) (*schema.Usage, error) {
	return &schema.Usage{Head: schema.At(time.Now()), Users: []schema.UserHours{}, Batches: []schema.BatchHours{}}, nil
}

func (f *fake) Batches() []Batch { return []Batch{f} }

func (f *fake) ID() string { return batchA }

func (f *fake) Row() (*schema.BatchRow, error) {
	v := f.current()
	return &schema.BatchRow{Batch: v.Status.Batch, Counts: v.Status.Counts}, nil
}

func (f *fake) current() *schema.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}

// looks returns the number of calls of Look.
func (f *fake) looks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looked
}

func (f *fake) Look() (*schema.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked++
	return f.view, nil
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
}

func (f *fake) Job(file, key, name string) (*schema.JobDetail, error) {
	f.note("job %s", key)
	because := schema.Because{Job: *f.current().Jobs[0], Chain: []string{"waits for <b>its</b> turn, TOKEN=hushhush"}}
	return &schema.JobDetail{Head: schema.At(time.Now()), Job: because, Attempts: []schema.AttemptRow{{File: file, Job: name, Key: key, Attempt: fakeAttempt()}}}, nil
}

func fakeAttempt() schema.Attempt {
	return schema.Attempt{UniID: schema.Known("20260101t000000-abcdefghij"), N: 1, State: state.Failed, GPUs: []schema.AttemptGPU{{Index: 3}}, Background: []schema.BackgroundJob{}, Cause: &schema.Cause{Code: state.CauseExit, Text: "exit 1"}}
}

func (f *fake) GPUUsage() (*schema.BatchUsage, error) {
	return &schema.BatchUsage{Head: schema.At(time.Now()), Parts: []state.GPUUse{}, Unknown: []string{}, Advice: []string{}}, nil
}

func (f *fake) Readings() *schema.Readings {
	return &schema.Readings{Step: 5, Time: []time.Time{time.Now().UTC()}, GPUs: []schema.ReadingsOfGPU{{Index: 3, Used: []*gpu.Bytes{nil}, Util: []*float64{nil}, Others: []bool{true}, Waits: []schema.GPUWait{}}}}
}

func (f *fake) Timeline() (*schema.Timeline, error) {
	return &schema.Timeline{Head: schema.At(time.Now()), Attempts: []schema.AttemptRow{{File: "/home/me/jobs.yaml", Job: "train-s0", Key: fmt.Sprintf("%032x", 0), Attempt: fakeAttempt()}}, Readings: f.Readings()}, nil
}

func (f *fake) Runs() (*schema.History, error) {
	return &schema.History{Head: schema.At(time.Now()), Batch: f.current().Status.Batch, Runs: []schema.RunRow{}}, nil
}

func (f *fake) Results(a results.Options) (*results.Table, error) {
	return &results.Table{Raw: a.Raw, Params: a.By}, nil
}

// Log knows two attempts: the log of "good" is a file, the log of "link" may be a symbolic link.
func (f *fake) Log(uniID string) (schema.LogPart, error) {
	f.note("log %s", uniID)
	path := filepath.Join(f.dir, "log")
	switch uniID {
	case "good":
		return schema.LogPart{Path: path, From: 5, To: 25, Over: true}, nil
	case "link":
		return schema.LogPart{Path: filepath.Join(f.dir, "link"), To: -1, Over: true}, nil
	}
	return schema.LogPart{}, notFound("no attempt")
}

func (f *fake) Curves(uniID string) ([]schema.Curve, error) {
	f.note("curves %s", uniID)
	if uniID != "good" {
		return nil, notFound("no attempt")
	}
	return []schema.Curve{{Metric: "loss", Steps: []float64{1, 2}, Values: []*float64{schema.Known(0.5), nil}}}, nil
}

func (f *fake) Do(_ string, request any) ([]string, error) {
	f.note("%T %v", request, request)
	return []string{"done"}, nil
}

func (f *fake) Start(s Start) ([]string, error) {
	f.note("start %v", s)
	return []string{"started"}, nil
}

// quick has short reading intervals, but long timeouts, because clients are slow on a busy machine.
var quick = Limits{
	Header: time.Minute, Request: time.Minute, Write: time.Minute, Beat: time.Minute,
	Look: time.Millisecond, Host: time.Millisecond, Past: 100 * time.Millisecond, Idle: time.Minute,
}

// served is a running server and its source.
type served struct {
	*Server
	t      testing.TB
	url    string
	errors bytes.Buffer
}

func serve(t testing.TB, src Source, allow Right, change ...func(*Limits)) *served {
	s, limits := &served{t: t}, quick
	for _, f := range change {
		f(&limits)
	}
	s.Server = New(Config{Source: src, User: "me", Host: "gpu01", Version: "v1", Allow: allow, Roots: []string{"/home/me"}, Tokens: Tokens{readToken, controlToken}, Limits: limits, Errors: &s.errors})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	go s.Serve(l)
	t.Cleanup(func() {
		s.Close()
		if s.errors.Len() > 0 {
			t.Errorf("internal errors:\n%s", s.errors.String())
		}
	})
	return s
}

// do sends a request, which change may modify.
func (s *served) do(method, path, token, body string, change func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(text)
}

func (s *served) get(path string) (*http.Response, string) {
	s.t.Helper()
	return s.do("GET", path, readToken, "", nil)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
