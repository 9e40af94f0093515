package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpurun/state/redact"
	"gpurun/state/schema"
)

// A feed reads a batch once for all its clients.
type feed struct {
	*watch[*edition]
	batch Batch
}

// An edition is an encoded snapshot of a batch. It is immutable, except that its since method
// caches events.
type edition struct {
	view    *schema.View
	epoch   string // changes when the list of jobs changes
	version uint64 // of the latest changed row
	rows    []row
	hide    func(string) string
	summary []byte

	before uint64 // the version of the previous edition
	once   sync.Once
	news   [][]byte // cached events for clients with the previous version
}

type row struct {
	job     *schema.Job
	id      string
	version uint64
	json    []byte
}

// feed returns the feed of a batch.
func (s *Server) feed(id string) (*feed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[id]; f != nil {
		return f, nil
	}
	for _, b := range s.Source.Batches() {
		if b.ID() == id {
			f := &feed{batch: b}
			var now *edition
			f.watch = newWatch(s, s.Limits.Look, func(context.Context) (*edition, error) {
				v, err := b.Look()
				if err == nil && (now == nil || now.view != v) {
					now = next(now, v, time.Now())
				}
				return now, err
			})
			s.feeds[id] = f
			return f, nil
		}
	}
	return nil, notFound("you have no batch " + id + " on this host")
}

// next returns an edition of view v that follows old, which may be nil. Versions are at least the
// time in microseconds, so they keep increasing when the server restarts.
func next(old *edition, v *schema.View, now time.Time) *edition {
	e := &edition{view: v, version: uint64(now.UnixMicro()), rows: make([]row, len(v.Jobs)), hide: redact.Hiding(v.Secrets)}
	files := map[string]int{}
	for i, f := range v.Status.Batch.Files {
		files[f.Path] = i
	}
	if old != nil {
		e.version, e.before = max(e.version, old.version+1), old.version
	}
	changed := old == nil || len(old.rows) != len(e.rows)
	for i, j := range v.Jobs {
		r := &e.rows[i]
		if old != nil && i < len(old.rows) && old.rows[i].job == j {
			*r = old.rows[i]
		} else {
			*r = row{job: j, id: rowID(j, files[j.File]), version: e.version}
			r.json, _ = json.Marshal(redact.Document(rowOf(j, i, files[j.File], r.id), e.hide)) // cannot fail: it has only numbers and strings
			changed = changed || old.rows[i].id != r.id || old.rows[i].job.Name != j.Name
		}
	}
	if changed {
		e.epoch = epochOf(e.rows)
	} else {
		e.epoch = old.epoch
	}
	e.summary = summaryOf(e)
	return e
}

// epochOf returns a hash of the list of jobs.
func epochOf(rows []row) string {
	list := sha256.New()
	for i := range rows {
		fmt.Fprintf(list, "%s %s\n", rows[i].id, rows[i].job.Name)
	}
	return hex.EncodeToString(list.Sum(nil)[:6])
}

func rowID(j *schema.Job, file int) string {
	if file == 0 {
		return j.Key
	}
	return fmt.Sprintf("%s.%d", j.Key, file)
}

func rowOf(j *schema.Job, index, file int, id string) *schema.JobRow {
	r := &schema.JobRow{
		ID: id, Index: index, File: file, Line: j.Line, Name: j.Name, Params: j.Params, Tags: j.Tags, Queue: j.Queue, Priority: j.Priority,
		Needs: len(j.Needs), State: j.State, Since: j.Since, Cause: j.Cause, Kind: schema.KindOf(j), Attempts: j.Attempts, GPUs: []int{}, Metrics: j.Metrics,
	}
	if w := j.Wait; w != nil {
		r.Wait = &schema.Reason{Code: w.Code, Text: w.Text}
	}
	if a := j.Attempt; a != nil {
		r.UniID, r.Started, r.Ended, r.GPUs, r.Stalled = a.UniID, a.Started, a.Ended, a.Indices(), a.Stalled
		if r.Progress, r.Steps, r.Expected = a.Progress, a.Steps, a.Takes; a.Ended == nil && a.Metrics != nil {
			r.Metrics = a.Metrics
		}
		for _, g := range a.GPUs {
			if g.Used != nil && (r.Used == nil || *g.Used > *r.Used) {
				r.Used = g.Used
			}
		}
	}
	return r
}

// token identifies an edition, for clients that request later changes.
func (e *edition) token() string { return fmt.Sprintf("%s-%d", e.epoch, e.version) }

// versionOf returns the version in a token. ok is false if the token is for another list of jobs.
func (e *edition) versionOf(token string) (version uint64, ok bool) {
	epoch, number, _ := strings.Cut(token, "-")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil || epoch != e.epoch {
		return 0, false
	}
	if version > e.version { // the clock was ahead when the token was made
		return 0, true
	}
	return version, true
}

// Limits of the parts of a summary, which keep it below maxSummary.
const (
	maxSummary  = 16 << 10
	maxNames    = 20
	maxWarnings = 10
	maxText     = 400
)

// summaryOf encodes the batch without its jobs.
func summaryOf(e *edition) []byte {
	st := e.view.Status
	st.Jobs = nil
	st = redact.Document(st, e.hide)
	s := schema.Summary{
		Head: st.Head, Version: e.token(), Batch: st.Batch, Run: st.Run, Counts: st.Counts, Outcome: st.Outcome, Tally: st.Tally, Line: shortened(st.Line), ETA: st.ETA, Total: len(e.rows),
		Alike: []schema.Alike{}, Warnings: []schema.Problem{},
	}
	for names := maxNames; ; names /= 2 { // if names are long, include fewer of them
		s.Alike, s.Warnings = s.Alike[:0], s.Warnings[:0]
		for _, a := range st.Alike[:min(len(st.Alike), names)] {
			a.Jobs, a.Cause.Text = a.Jobs[:min(len(a.Jobs), names)], shortened(a.Cause.Text)
			s.Alike = append(s.Alike, a)
		}
		for _, w := range st.Warnings[:min(len(st.Warnings), maxWarnings, names)] {
			w.Text = shortened(w.Text)
			s.Warnings = append(s.Warnings, w)
		}
		if names == 0 { // a last resort, because the page can then no longer act on all files
			s.Batch.Files = st.Batch.Files[:min(len(st.Batch.Files), 1)]
		}
		if names == 0 && s.Run != nil {
			run := *s.Run
			run.Params, run.Settings, s.Run = nil, nil, &run
		}
		b, _ := json.Marshal(s)
		if len(b) <= maxSummary || names == 0 {
			return b
		}
	}
}

func shortened(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}
