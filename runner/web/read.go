package web

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/runner/results"
	"gpurun/state"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

func (c *call) hello() (any, error) {
	nonce := c.text("nonce")
	if len(nonce) < 16 || len(nonce) > 128 {
		return nil, badRequest("nonce: pass 16 to 128 characters", "")
	}
	address := fmt.Sprint(localAddr(c.Request))
	h := schema.Hello{Head: now(), Address: address, Session: c.server.session, Read: hex.EncodeToString(proof(c.server.Tokens.Read, nonce, address))}
	if t := c.server.Tokens.Control; t != "" {
		h.Control = schema.Known(hex.EncodeToString(proof(t, nonce, address)))
	}
	return h, nil
}

func (c *call) session() (any, error) {
	s := c.server
	doc := schema.Session{Head: now(), User: s.User, Host: s.Config.Host, Version: s.Version, Control: rightWords[c.right], Roots: []string{}}
	if c.right == Run {
		doc.Roots = schema.List(s.Roots)
	}
	ctx, cancel := context.WithTimeout(c.Context(), promptLimit) // a driver may take seconds to start
	defer cancel()
	if d, err := s.host.read(ctx); err == nil && d.Rules != nil {
		doc.Prompt = d.Rules.Prompt
	}
	return doc, nil
}

// promptLimit is how long session waits for the host rules. If that is too short, the page gets
// them later, with the GPUs.
const promptLimit = 500 * time.Millisecond

func (c *call) host() (any, error) { return c.server.host.read(c.Context()) }

func (c *call) past() (any, error) { return c.server.host.lastHour(c.Context()) }

func (c *call) usage() (any, error) { return c.server.Source.Usage(c.Context(), c.number("days")) }

func (c *call) batches() (any, error) {
	l, err := c.server.list.read(c.Context())
	if err != nil {
		return nil, err
	}
	return encodedAnswer{json: l.json}, nil
}

func (c *call) summary() (any, error) {
	_, e, err := c.edition()
	if err != nil {
		return nil, err
	}
	return encodedAnswer{json: e.summary, etag: `"` + e.token() + `"`}, nil
}

func (c *call) jobs() (any, error) {
	_, e, err := c.edition()
	if err != nil {
		return nil, err
	}
	for _, s := range c.list("state") {
		if !slices.Contains(state.Phases, state.Phase(s)) {
			return nil, badRequest(fmt.Sprintf("state: unknown state %q", s), "")
		}
	}
	etag := fmt.Sprintf(`"%s-%x"`, e.token(), proof("", c.URL.RawQuery, "")[:8])
	states, match := c.list("state"), strings.ToLower(c.text("match"))
	rows, total, offset, limit := [][]byte{}, 0, c.number("offset"), c.number("limit")
	for i := range e.rows {
		r := &e.rows[i]
		if states != nil && !slices.Contains(states, string(r.job.State)) || match != "" && !strings.Contains(strings.ToLower(r.job.Name), match) {
			continue
		}
		if total++; total > offset && len(rows) < limit {
			rows = append(rows, r.json)
		}
	}
	return encodedAnswer{json: page(schema.Jobs{Head: now(), Version: e.token(), Total: total, Offset: offset}, rows), etag: etag}, nil
}

// page inserts encoded rows into a page of jobs.
func page(head schema.Jobs, rows [][]byte) []byte {
	head.Jobs = []schema.JobRow{}
	b, _ := json.Marshal(head) // ends in "jobs":[]}
	size := len(b)
	for _, r := range rows {
		size += len(r) + 1
	}
	out := append(make([]byte, 0, size), b[:len(b)-2]...)
	for i, r := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, r...)
	}
	return append(out, ']', '}')
}

func (c *call) job() (any, error) {
	f, e, err := c.edition()
	if err != nil {
		return nil, err
	}
	id := c.PathValue("job")
	i := slices.IndexFunc(e.rows, func(r row) bool { return r.id == id || r.job.Name == id })
	if i < 0 {
		return nil, notFound("no such job in this batch: " + id)
	}
	j := e.rows[i].job
	doc, err := f.batch.Job(j.File, j.Key, j.Name)
	return redact.Document(doc, e.hide), err
}

// ofBatch returns the document that read returns for the batch in the path, redacted.
func ofBatch[T any](c *call, read func(Batch) (T, error)) (any, error) {
	f, e, err := c.edition()
	if err != nil {
		return nil, err
	}
	doc, err := read(f.batch)
	return redact.Document(doc, e.hide), err
}

// results returns a table of metrics as a document or, if copies is set, as LaTeX, Markdown and CSV.
func (c *call) results(raw, copies bool) (any, error) {
	f, e, err := c.edition()
	if err != nil {
		return nil, err
	}
	t, err := f.batch.Results(results.Options{
		Metrics: c.list("metric"), By: c.list("by"), Over: c.list("over"), Where: c.URL.Query()["where"],
		Best: c.text("best"), Pivot: c.text("pivot"), Versus: c.text("versus"), Err: results.Err(c.text("err")), Sort: c.text("sort"), Raw: raw,
	})
	if err != nil {
		return nil, err
	}
	if copies {
		return redact.Document(t.Copies(time.Now()), e.hide), nil
	}
	return redact.Document(t.Document(time.Now()), e.hide), nil
}

func (c *call) curves() (any, error) {
	f, _, err := c.edition()
	if err != nil {
		return nil, err
	}
	curves, err := f.batch.Curves(c.PathValue("uni_id"))
	return schema.Curves{Head: now(), Curves: schema.List(curves)}, err
}
