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

// A stream sends events to one client. It queues nothing: a client that is slow or was disconnected
// gets the current state when it reads again.
type stream struct {
	c    *call
	w    http.ResponseWriter
	ctrl *http.ResponseController
}

func (c *call) stream(w http.ResponseWriter) *stream {
	s := &stream{c, w, http.NewResponseController(w)}
	_ = s.ctrl.SetReadDeadline(time.Time{}) // a ResponseRecorder has no deadline
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	return s
}

// eventOf encodes an event whose data is JSON on a single line.
func eventOf(name, id string, data []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(data) + 64)
	fmt.Fprintf(&b, "event: %s\n", name)
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.Bytes()
}

// keepAlive is a comment that shows that the server is alive.
var keepAlive = []byte(": alive\n\n")

// send writes events and reports whether the client accepted them.
func (s *stream) send(events ...[]byte) bool {
	for _, b := range events {
		_ = s.ctrl.SetWriteDeadline(time.Now().Add(s.c.server.Limits.Write))
		if _, err := s.w.Write(b); err != nil {
			return false
		}
	}
	return s.ctrl.Flush() == nil
}

// wait waits for a change and sends keep-alives meanwhile. It returns false if the client
// disconnects or the server closes.
func (s *stream) wait(news ...<-chan struct{}) bool {
	news = append(news, nil, nil)
	for {
		select {
		case <-news[0]:
			return true
		case <-news[1]:
			return true
		case <-s.c.Context().Done():
			return false
		case <-s.c.server.ctx.Done():
			return false
		case <-time.After(s.c.server.Limits.Beat):
			if !s.send(keepAlive) {
				return false
			}
		}
	}
}

// maxRows is the maximum number of rows in one event.
const maxRows = 1000

// batchEvents sends a batch and its changes.
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
	version, ok := e.versionOf(after)
	switch {
	case after == "":
		version, ok = e.version, s.send(eventOf("jobs", e.token(), page(e.jobs(), nil)))
	case !ok:
		version, ok = e.version, s.send(e.reset())
	}
	ok = ok && s.send(e.since(version)...)
	for ok {
		if !s.wait(f.next(e)) {
			return nil
		}
		old := e
		if e = f.last(); e.epoch != old.epoch {
			ok = s.send(e.reset(), eventOf("summary", "", e.summary))
			continue
		}
		ok = s.send(e.since(old.version)...)
	}
	return nil
}

func (e *edition) jobs() schema.Jobs {
	return schema.Jobs{Head: e.view.Status.Head, Version: e.token(), Total: len(e.rows)}
}

func (e *edition) reset() []byte { return eventOf("reset", e.token(), []byte("{}")) }

// since returns the events for a client with a given version: the summary and the jobs that
// changed. Events for the previous version, which most clients have, are encoded only once.
func (e *edition) since(version uint64) [][]byte {
	if version != e.before {
		return e.changes(version)
	}
	e.once.Do(func() { e.news = e.changes(version) })
	return e.news
}

// changes encodes the events since a version. Only the last event has an ID, so a client that
// misses part of them gets all of them again.
func (e *edition) changes(since uint64) [][]byte {
	events, list := [][]byte{eventOf("summary", "", e.summary)}, [][]byte(nil)
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
		events = append(events, eventOf("jobs", id, page(e.jobs(), list[:n])))
		list = list[n:]
	}
	return events
}

// hostEvents sends the host, the list of batches, and their changes.
func (c *call) hostEvents(w http.ResponseWriter) error {
	s, host, list := c.stream(w), c.server.host.watch, c.server.list
	var was *schema.GPUs
	var rows *listing
	for {
		if d, err := host.read(c.Context()); err == nil && d != was {
			b, _ := json.Marshal(d)
			if was = d; !s.send(eventOf("host", "", b)) {
				return nil
			}
		}
		if d, err := list.read(c.Context()); err == nil && d != rows {
			if rows = d; !s.send(eventOf("batches", "", d.json)) {
				return nil
			}
		}
		if !s.wait(host.next(was), list.next(rows)) {
			return nil
		}
	}
}
