package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"gpurun/state/schema"
)

const eventStream = "text/event-stream"

// A stream sends events to one client. Nothing is kept for it: a client that is slow, or
// was away, gets what is true when it reads again.
type stream struct {
	c    *call
	w    http.ResponseWriter
	ctrl *http.ResponseController
}

func (c *call) stream(w http.ResponseWriter) *stream {
	s := &stream{c, w, http.NewResponseController(w)}
	_ = s.ctrl.SetReadDeadline(time.Time{}) // a recorder in tests has none
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	return s
}

// send sends an event, and reports whether the client took it.
func (s *stream) send(event, id string, data []byte) bool {
	var b bytes.Buffer
	b.Grow(len(data) + 64)
	if event == "" {
		b.WriteString(": alive\n\n")
	} else {
		fmt.Fprintf(&b, "event: %s\n", event)
		if id != "" {
			fmt.Fprintf(&b, "id: %s\n", id)
		}
		b.WriteString("data: ")
		b.Write(data) // JSON, on one line
		b.WriteString("\n\n")
	}
	_ = s.ctrl.SetWriteDeadline(time.Now().Add(s.c.server.Limits.Write))
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return false
	}
	return s.ctrl.Flush() == nil
}

// wait waits for news, and shows signs of life meanwhile. It returns false if the client
// has gone, or the server ends.
func (s *stream) wait(news ...<-chan struct{}) bool {
	news = append(news, nil, nil)
	for {
		beat := time.NewTimer(s.c.server.Limits.Beat)
		select {
		case <-news[0]:
		case <-news[1]:
		case <-s.c.Context().Done():
			beat.Stop()
			return false
		case <-s.c.server.ctx.Done():
			beat.Stop()
			return false
		case <-beat.C:
			if !s.send("", "", nil) {
				return false
			}
			continue
		}
		beat.Stop()
		return true
	}
}

// maxRows is how many rows an event has at most.
const maxRows = 1000

// batchEvents sends a batch as it changes.
func (c *call) batchEvents(w http.ResponseWriter) error {
	f, e, err := c.edition()
	if err != nil {
		return err
	}
	after := c.text("after")
	if id := c.Header.Get("Last-Event-ID"); id != "" {
		after = id
	}
	s := c.stream(w)
	version, ok := e.since(after)
	switch {
	case after == "":
		version, ok = e.version, s.send("jobs", e.token(), page(e.jobs(), nil))
	case !ok:
		version, ok = e.version, s.send("reset", e.token(), []byte("{}"))
	}
	ok = ok && s.send("summary", "", e.summary) && s.rows(e, version)
	for ok {
		if !s.wait(f.next(e)) {
			return nil
		}
		old := e
		if e = f.last(); e.epoch != old.epoch {
			ok = s.send("reset", e.token(), []byte("{}")) && s.send("summary", "", e.summary)
			continue
		}
		ok = s.send("summary", "", e.summary) && s.rows(e, old.version)
	}
	return nil
}

func (e *edition) jobs() schema.Jobs {
	return schema.Jobs{Head: e.view.Status.Head, Version: e.token(), Total: len(e.rows)}
}

// rows sends the jobs that have changed since a version. Only the last event has an ID: who
// misses it begins again where it began.
func (s *stream) rows(e *edition, since uint64) bool {
	var list [][]byte
	for i := range e.rows {
		if e.rows[i].version > since {
			list = append(list, e.rows[i].json)
		}
	}
	for len(list) > 0 {
		n, id := min(len(list), maxRows), ""
		if n == len(list) {
			id = e.token()
		}
		if !s.send("jobs", id, page(e.jobs(), list[:n])) {
			return false
		}
		list = list[n:]
	}
	return true
}

// hostEvents sends the host and the list of batches as they change.
func (c *call) hostEvents(w http.ResponseWriter) error {
	s, host, list := c.stream(w), c.server.host.watch, c.server.list
	var was *schema.GPUs
	var rows *listing
	for {
		if d, err := host.read(c.Context()); err == nil && d != was {
			b, _ := json.Marshal(d)
			if was = d; !s.send("host", "", b) {
				return nil
			}
		}
		if d, err := list.read(c.Context()); err == nil && d != rows {
			if rows = d; !s.send("batches", "", d.json) {
				return nil
			}
		}
		if !s.wait(host.next(was), list.next(rows)) {
			return nil
		}
	}
}
