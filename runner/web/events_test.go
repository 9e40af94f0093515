package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// A listener is a client that receives events.
type listener struct {
	t      testing.TB
	lines  *bufio.Scanner
	close  func()
	lastID string
}

// event is an event as the client receives it.
type event struct {
	kind, id string
	schema.Jobs
	counts map[state.Phase]int
}

func (s *served) listen(after string) *listener {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/api/v1/batches/"+batchA+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+readToken)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	l := &listener{t: s.t, lines: lines(res.Body), close: func() { cancel(); res.Body.Close() }, lastID: after}
	s.t.Cleanup(l.close)
	return l
}

// next returns the next event.
func (l *listener) next() (e event) {
	l.t.Helper()
	defer time.AfterFunc(time.Minute, l.close).Stop()
	for l.lines.Scan() {
		name, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch {
		case name == "event":
			e.kind = value
		case name == "id":
			e.id, l.lastID = value, value
		case name == "data" && e.kind == "summary":
			var s schema.Summary
			if err := json.Unmarshal([]byte(value), &s); err != nil {
				l.t.Fatal(err)
			}
			e.counts = s.Counts
		case name == "data":
			if err := json.Unmarshal([]byte(value), &e.Jobs); err != nil {
				l.t.Fatal(err)
			}
		case e.kind != "":
			return e
		}
	}
	l.t.Fatalf("the stream ended: %v", l.lines.Err())
	return e
}

// until returns the names of changed jobs up to the first event with an ID.
func (l *listener) until() (names []string) {
	l.t.Helper()
	for {
		e := l.next()
		if e.kind == "reset" {
			return []string{"reset"}
		}
		for _, j := range e.Jobs.Jobs {
			names = append(names, j.Name+" "+string(j.State))
		}
		if e.kind == "jobs" && e.id != "" {
			return names
		}
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A client must receive every changed job, including those that changed while it was disconnected.
// After a restart of the server, it receives all jobs again.
func TestEventsResumeAfterDisconnect(t *testing.T) {
	f := newFake(t, 3)
	s := serve(t, f, Read)
	l := s.listen("")
	expect(t, l.until()) // no jobs, only the current version
	f.set(fakeJob(1, state.Running))
	expect(t, l.until(), "train-s1 running")
	l.close()

	f.set(fakeJob(1, state.Succeeded)) // while no client listens
	f.set(fakeJob(2, state.Running))
	l = s.listen(l.lastID)
	expect(t, l.until(), "train-s1 succeeded", "train-s2 running")

	s.Close()
	timeout := time.AfterFunc(time.Minute, l.close)
	for l.lines.Scan() { // until the stream ends
	}
	if !timeout.Stop() {
		t.Error("the stream continues after the server closed")
	}
	f.set(fakeJob(2, state.Failed))
	l = serve(t, f, Read).listen(l.lastID)
	if got := l.until(); len(got) != 3 || got[2] != "train-s2 failed" { // the new server does not know what the client has
		t.Errorf("after a restart of the server: got %v, want all 3 jobs", got)
	}
}

func TestNewJobListResetsEvents(t *testing.T) {
	f := newFake(t, 3)
	s := serve(t, f, Read)
	l := s.listen("")
	expect(t, l.until())
	f.mu.Lock()
	v := *f.view
	v.Jobs = append(v.Jobs[:2:2], fakeJob(7, state.Pending))
	f.view = &v
	f.mu.Unlock()
	expect(t, l.until(), "reset")
	for _, bad := range []string{"0123-4", "x", "-", "-1", strings.Repeat("9", 100), l.lastID + "x"} {
		expect(t, s.listen(bad).until(), "reset")
	}
	expect(t, s.listen(l.lastID[:strings.IndexByte(l.lastID, '-')]+"-99999999999999999").until(), "train-s0 pending", "train-s1 pending", "train-s7 pending") // a version from a clock that was ahead
	res, page := s.get("/api/v1/batches/" + batchA + "/jobs?offset=1&limit=1")
	if !strings.Contains(page, `"total":3,"offset":1`) || !strings.Contains(page, "train-s1") || strings.Contains(page, "train-s0") {
		t.Errorf("the second page: %s", page)
	}
	again, _ := s.do("GET", "/api/v1/batches/"+batchA+"/jobs?offset=1&limit=1", readToken, "", func(r *http.Request) { r.Header.Set("If-None-Match", res.Header.Get("ETag")) })
	other, _ := s.do("GET", "/api/v1/batches/"+batchA+"/jobs?offset=2&limit=1", readToken, "", func(r *http.Request) { r.Header.Set("If-None-Match", res.Header.Get("ETag")) })
	if again.StatusCode != 304 || other.StatusCode != 200 {
		t.Errorf("status %d for an unchanged page, %d for another page; want 304, 200", again.StatusCode, other.StatusCode)
	}
}

// Many rows are split over several events. Only the last event has an ID, so a client that misses one
// of them gets all of them again.
func TestOnlyLastEventHasID(t *testing.T) {
	f := newFake(t, 2500)
	s := serve(t, f, Read)
	first := s.listen("")
	first.until()
	version, _, _ := strings.Cut(first.lastID, "-")
	l := s.listen(version + "-1")
	sizes := []int{}
	for len(sizes) < 3 {
		if e := l.next(); e.kind == "jobs" {
			sizes = append(sizes, len(e.Jobs.Jobs))
			if (e.id != "") != (len(sizes) == 3) {
				t.Errorf("part %d of 3 has the ID %q", len(sizes), e.id)
			}
		}
	}
	if fmt.Sprint(sizes) != "[1000 1000 500]" {
		t.Errorf("got parts of %v rows, want [1000 1000 500]", sizes)
	}
}

func TestSlowClientIsDroppedWithoutBlockingOthers(t *testing.T) {
	f := newFake(t, 500)
	s := serve(t, f, Read, func(l *Limits) { l.Write = 3 * time.Second })
	address := strings.TrimPrefix(s.url, "http://")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(c, "GET /api/v1/batches/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", batchA, readToken)
	l := s.listen("")
	l.until()
	dropped := make(chan struct{})
	go func() { // the connection is reset when the server gives up
		defer close(dropped)
		for {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	states := []state.Phase{state.Running, state.Failed}
	for n := 0; ; n++ {
		jobs := make([]*schema.Job, 500)
		for i := range jobs {
			jobs[i] = fakeJob(i, states[n%2])
		}
		f.mu.Lock()
		f.view = &schema.View{Status: f.view.Status}
		f.view.Jobs = jobs
		f.mu.Unlock()
		if got := l.until(); len(got) != 500 {
			t.Fatalf("the other client got %d rows, want 500", len(got))
		}
		select {
		case <-dropped:
			return
		default:
		}
		if n == 100_000 {
			t.Fatal("the slow client was never dropped")
		}
	}
}

// All 1,000 clients must get the change, from a single reading, and no goroutine may remain after them.
func TestManyClientsAreServed(t *testing.T) {
	before := runtime.NumGoroutine()
	f := newFake(t, 100)
	s := serve(t, f, Read, func(l *Limits) { l.Look = time.Hour }) // the server reads once
	all := make([]*listener, 1000)
	var group sync.WaitGroup
	each := func(do func(i int)) {
		for at := range 50 {
			group.Go(func() {
				for i := at; i < len(all); i += 50 {
					do(i)
				}
			})
		}
		group.Wait()
	}
	each(func(i int) { all[i] = s.listen(""); all[i].until() })
	f.set(fakeJob(42, state.Running))
	feed, err := s.feed(batchA)
	if err != nil {
		t.Fatal(err)
	}
	feed.readOnce()
	each(func(i int) {
		if got := all[i].until(); len(got) != 1 || got[0] != "train-s42 running" {
			t.Errorf("client %d got %v", i, got)
		}
	})
	if res, _ := s.get("/api/v1/batches/" + batchA); res.StatusCode != 200 {
		t.Errorf("a request while 1,000 clients listen: status %d", res.StatusCode)
	}
	if n := f.looks(); n != 2 {
		t.Errorf("the server read the batch %d times, want one reading before and one after the change", n)
	}
	each(func(i int) { all[i].close() })
	s.Close()
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			os.Stderr.Write(buf[:runtime.Stack(buf, true)])
			t.Fatalf("%d goroutines remain, %d before the test", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestServerStopsReadingWithoutClients(t *testing.T) {
	f := newFake(t, 1)
	limits := quick
	limits.Idle = 50 * time.Millisecond
	s := &served{t: t}
	s.Server = New(Config{Source: f, Tokens: Tokens{Read: readToken}, Limits: limits})
	defer s.Close()
	feed, err := s.feed(batchA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := feed.read(context.Background()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		feed.mu.Lock()
		reading := feed.reading
		feed.mu.Unlock()
		if !reading {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server still reads the batch")
		}
		time.Sleep(time.Millisecond)
	}
	looked := f.looks()
	f.set(fakeJob(0, state.Failed))
	e, err := feed.read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := e.rows[0].job.State; got != state.Failed || f.looks() == looked {
		t.Errorf("a later client sees %v", got)
	}
}

func TestLongNamesFitSummary(t *testing.T) {
	v := newFake(t, 10000).view
	long := strings.Repeat("ä", 3000)
	for i := range 100 {
		v.Jobs[i] = fakeJob(i, state.Running)
		v.Jobs[i].Name = long
	}
	v.Status.Run = &schema.Run{Settings: map[string]string{}, Params: map[string]string{}}
	for i := range 50 {
		v.Status.Warnings = append(v.Status.Warnings, schema.Problem{Text: long})
		v.Status.Alike = append(v.Status.Alike, schema.Alike{Cause: schema.Cause{Text: long}, Jobs: []string{long, long}})
		v.Status.Batch.Files = append(v.Status.Batch.Files, schema.File{Path: long})
		v.Status.Run.Params[fmt.Sprint(i)] = long
	}
	e := next(nil, v, time.Now())
	var s schema.Summary
	if err := json.Unmarshal(e.summary, &s); err != nil || len(e.summary) > maxSummary || s.Total != 10000 {
		t.Errorf("the summary has %d bytes, want at most %d; %d jobs, %v", len(e.summary), maxSummary, s.Total, err)
	}
}

// The actions on the page need all job files of the run.
func TestSummaryListsAllFiles(t *testing.T) {
	v := newFake(t, 1).view
	for i := range 50 {
		v.Status.Batch.Files = append(v.Status.Batch.Files, schema.File{Path: fmt.Sprint("/home/me/", i, ".yaml")})
		v.Status.Alike = append(v.Status.Alike, schema.Alike{Cause: schema.Cause{Text: strings.Repeat("x", maxText)}})
	}
	var s schema.Summary
	if err := json.Unmarshal(next(nil, v, time.Now()).summary, &s); err != nil || len(s.Batch.Files) != len(v.Status.Batch.Files) {
		t.Errorf("got %d of %d files, %v", len(s.Batch.Files), len(v.Status.Batch.Files), err)
	}
}
