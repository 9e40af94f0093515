package web

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/results"
	"gpurun/state/schema"
)

// base is the path prefix of the API.
const base = "/api/v1"

// An operation is a method and path of the API. Both the routes and the OpenAPI document are
// generated from the list of operations.
type operation struct {
	method, path string // {batch}, {job} and {uni_id} are looked up, never used as file paths
	says         string
	right        Right
	query        []param
	body, answer any    // values of the body's and answer's types; nil for none
	media        string // media type of an answer that is not JSON
	json         func(*call) (any, error)
	raw          func(*call, http.ResponseWriter) error
}

// A param is a query parameter.
type param struct {
	name, says string
	kind       any // a zero value of its type: "", 0 or false
	usual      string
	max        int
}

// A call is a request for an operation.
type call struct {
	*http.Request
	server *Server
	op     *operation
	right  Right
}

var pageParams = []param{
	{name: "offset", says: "index of the first job", kind: 0},
	{name: "limit", says: "maximum number", kind: 0, usual: "1000", max: 5000},
	{name: "state", says: "only jobs in these states, separated by commas", kind: ""},
	{name: "match", says: "only jobs whose name contains this text", kind: ""},
}

var resultParams = []param{
	{name: "metric", says: "only these metrics, separated by commas", kind: ""},
	{name: "by", says: "parameters that form the rows", kind: ""},
	{name: "over", says: "parameters to average over", kind: ""},
	{name: "best", says: "for parameters not listed in 'by', keep only the setting with the best mean of this metric", kind: ""},
	{name: "pivot", says: "parameter whose values become columns", kind: ""},
	{name: "versus", says: "PARAM=VALUE of the baseline", kind: ""},
	{name: "where", says: "PARAM=VALUE,… that jobs must have; may be repeated", kind: ""},
	{name: "err", says: "sd, sem or ci95", kind: "", usual: "sd"},
	{name: "sort", says: "metric or parameter; a leading - reverses the order", kind: ""},
}

// operations returns all operations of the API.
func operations() []operation {
	const batch = "/batches/{batch}"
	ops := []operation{
		{path: "/hello", says: "Proof that the server has each token: hexadecimal HMAC-SHA256 of the nonce, a space and the address, keyed once with the read token and once with the control token. Check that the address is the one you expect, because another server could forward a proof.", query: []param{{name: "nonce", says: "16 to 128 characters, never used before", kind: ""}}, answer: schema.Hello{}, json: (*call).hello},
		{path: "", says: "What this token allows.", right: Read, answer: schema.Session{}, json: (*call).session},
		{path: "/openapi.json", says: "This document.", right: Read, answer: map[string]any{}, json: func(c *call) (any, error) { return c.server.Document(), nil }},
		{path: "/host", says: "The GPUs of this host, who uses them, the queue for them, and the host's rules.", right: Read, answer: schema.GPUs{}, json: (*call).host},
		{path: "/host/past", says: "The readings of the GPUs in the last hour.", right: Read, answer: schema.Past{}, json: (*call).past},
		{path: "/usage", says: "GPU hours by user and batch.", right: Read, query: []param{{name: "days", says: "number of days to include", kind: 0, usual: "7", max: 30}}, answer: schema.Usage{}, json: (*call).usage},
		{path: "/events", says: "Streams two kinds of events: 'host' (a GPUs document) and 'batches' (a Batches document), each whenever its content changes.", right: Read, media: eventStream, raw: (*call).hostEvents},
		{path: "/batches", says: "Your batches on this host, latest start first.", right: Read, answer: schema.Batches{}, json: (*call).batches},
		{path: batch, says: "A batch without its jobs: at most 16 KiB.", right: Read, answer: schema.Summary{}, json: (*call).summary},
		{path: batch + "/jobs", says: "The jobs of a batch, a page at a time, in job-file order.", right: Read, query: pageParams, answer: schema.Jobs{}, json: (*call).jobs},
		{path: batch + "/jobs/{job}", says: "A job by its ID or name, the reason for its state, and its attempts.", right: Read, answer: schema.JobDetail{}, json: (*call).job},
		{path: batch + "/events", says: "Streams three kinds of events: 'summary' (a Summary), 'jobs' (the changed Jobs) and 'reset' (reload the jobs). Continues after the given version or Last-Event-ID.", right: Read, query: []param{{name: "after", says: "version of the jobs to continue after", kind: ""}}, media: eventStream, raw: (*call).batchEvents},
		{path: batch + "/timeline", says: "All attempts, and the readings of the GPUs.", right: Read, answer: schema.Timeline{}, json: func(c *call) (any, error) { return ofBatch(c, Batch.Timeline) }},
		{path: batch + "/runs", says: "Past runs.", right: Read, answer: schema.History{}, json: func(c *call) (any, error) { return ofBatch(c, Batch.Runs) }},
		{path: batch + "/usage", says: "Use of GPU time over all runs, with advice.", right: Read, answer: schema.BatchUsage{}, json: func(c *call) (any, error) { return ofBatch(c, Batch.GPUUsage) }},
		{path: batch + "/results", says: "The metrics of the jobs, averaged over seeds.", right: Read, query: resultParams, answer: results.Document{}, json: func(c *call) (any, error) { return c.results(false, false) }},
		{path: batch + "/results/raw", says: "The metrics of each job.", right: Read, query: resultParams, answer: results.RawDocument{}, json: func(c *call) (any, error) { return c.results(true, false) }},
		{path: batch + "/results/copies", says: "The averaged metrics as LaTeX, Markdown and CSV.", right: Read, query: resultParams, answer: results.Copies{}, json: func(c *call) (any, error) { return c.results(false, true) }},
		{path: batch + "/attempts/{uni_id}/log", says: "The log of an attempt, or a byte range of it. The header Gpurun-Over shows whether the attempt has ended. With ?ticket= and the value of the header Gpurun-Ticket, the URL works without a token.", right: Read, query: []param{{name: "ticket", says: "instead of a token", kind: ""}}, media: plainText, raw: (*call).log},
		{path: batch + "/attempts/{uni_id}/search", says: "Case-insensitive search in an attempt's log: the number of matching lines, and the positions of the last 1000.", right: Read, query: []param{{name: "text", says: "text to search for", kind: ""}}, answer: schema.Matches{}, json: (*call).search},
		{path: batch + "/attempts/{uni_id}/curves", says: "The metrics of an attempt, step by step.", right: Read, answer: schema.Curves{}, json: (*call).curves},
	}
	for i := range ops {
		ops[i].method = http.MethodGet
	}
	return append(ops, verbs()...)
}

// routes returns the handler for requests that guard accepts.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := answer(w, r); err != nil {
				fail(w, s.Explain(err))
			}
		})
	}
	for _, op := range operations() {
		handle(op.method+" "+base+op.path, func(w http.ResponseWriter, r *http.Request) error {
			c := &call{r, s, &op, s.right(r)}
			return c.answer(w)
		})
	}
	handle("GET /metrics", s.metrics)
	mux.HandleFunc(base+"/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, notFound(r.Method+" "+r.URL.Path+" is not part of the API; "+base+"/openapi.json describes it"))
	})
	mux.Handle("/", bundle())
	return mux
}

// allowed returns nil if a client with one right (has) may call an operation that requires another
// (needs) on this server, or else a Failure.
func (s *Server) allowed(has, needs Right) error {
	switch {
	case has >= needs:
		return nil
	case has == None:
		return &Failure{Status: http.StatusUnauthorized, Code: "token", Text: "the token is missing or wrong", Hint: "open the address that gpurun web printed, or send the header Authorization: Bearer TOKEN, with the token from the file that gpurun web named"}
	case s.Allow < needs && needs == Run:
		return &Failure{Status: http.StatusForbidden, Code: "read_only", Text: "this server cannot start jobs", Hint: "run gpurun web --control=run --root DIR"}
	case s.Allow < needs:
		return &Failure{Status: http.StatusForbidden, Code: "read_only", Text: "this server is read-only", Hint: "to allow control, run gpurun web --control"}
	}
	return &Failure{Status: http.StatusForbidden, Code: "read_only", Text: "this token is read-only", Hint: "use the control token"}
}

// answer writes the answer, or returns why the request failed.
func (c *call) answer(w http.ResponseWriter) error {
	if err := c.server.allowed(c.right, c.op.right); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.op.raw != nil {
		return c.op.raw(c, w)
	}
	v, err := c.op.json(c)
	if err != nil {
		return err
	}
	d, encoded := v.(encodedAnswer)
	if !encoded {
		if d.json, err = json.Marshal(v); err != nil {
			return err
		}
	}
	if d.etag != "" {
		w.Header().Set("ETag", d.etag)
		if c.Header.Get("If-None-Match") == d.etag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	if len(d.json) >= packedFrom && acceptsGzip(c.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		d.json = gzipped(d.json, gzip.BestSpeed)
	}
	send(w, http.StatusOK, d.json)
	return nil
}

// packedFrom is the size from which an answer is worth compressing.
const packedFrom = 32 << 10

// encodedAnswer is an answer ready to send.
type encodedAnswer struct {
	json []byte
	etag string // "" for no ETag
}

// check validates the query.
func (c *call) check() error {
	for name, values := range c.URL.Query() {
		i := slices.IndexFunc(c.op.query, func(p param) bool { return p.name == name })
		if i < 0 {
			return badRequest(fmt.Sprintf("unknown parameter %q", name), c.known())
		}
		p := &c.op.query[i]
		if _, number := p.kind.(int); !number {
			continue
		}
		n, err := strconv.Atoi(values[0])
		if err != nil || n < 0 || p.max > 0 && (n == 0 || n > p.max) {
			hint := "a whole number"
			if p.max > 0 {
				hint = fmt.Sprintf("a whole number from 1 to %d", p.max)
			}
			return badRequest(fmt.Sprintf("%s: %q is not %s", name, values[0], hint), "")
		}
	}
	return nil
}

func (c *call) known() string {
	if len(c.op.query) == 0 {
		return "this path takes no parameters"
	}
	names := make([]string, len(c.op.query))
	for i, p := range c.op.query {
		names[i] = p.name
	}
	return "the parameters are " + strings.Join(names, ", ")
}

// text returns a query parameter or its default value. number returns it as a number; check has
// already validated it.
func (c *call) text(name string) string {
	if v := c.URL.Query().Get(name); v != "" {
		return v
	}
	for _, p := range c.op.query {
		if p.name == name {
			return p.usual
		}
	}
	return ""
}

func (c *call) number(name string) int {
	n, _ := strconv.Atoi(c.text(name))
	return n
}

// list returns a query parameter as a list.
func (c *call) list(name string) []string {
	if c.text(name) == "" {
		return nil
	}
	return strings.Split(c.text(name), ",")
}

// input decodes the body of a request.
func (c *call) input(to any) error {
	if kind, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type")); kind != "application/json" {
		return &Failure{Status: http.StatusUnsupportedMediaType, Code: "usage", Text: "the body must be JSON", Hint: "send Content-Type: application/json"}
	}
	d := json.NewDecoder(c.Body)
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return err
	}
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("unexpected data after the JSON")
		}
	}
	if err != nil {
		return badRequest("the body: "+strings.TrimPrefix(err.Error(), "json: "), "")
	}
	return nil
}

// edition returns the current edition of the batch in the path.
func (c *call) edition() (*feed, *edition, error) {
	f, err := c.server.feed(c.PathValue("batch"))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), c.server.Limits.Request)
	defer cancel()
	e, err := f.read(ctx)
	return f, e, err
}

func now() schema.Head { return schema.At(time.Now()) }
