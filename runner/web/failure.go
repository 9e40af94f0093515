package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"gpurun/state/schema"
)

// A Failure is an error to send to a client.
type Failure struct {
	Status     int // HTTP status
	Code       string
	Text, Hint string
	More       []schema.Problem // errors in job files
}

func (f *Failure) Error() string { return f.Text }

func notFound(text string) *Failure {
	return &Failure{Status: http.StatusNotFound, Code: "not_found", Text: text}
}

func badRequest(text, hint string) *Failure {
	return &Failure{Status: http.StatusBadRequest, Code: "usage", Text: text, Hint: hint}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	f := &Failure{Status: http.StatusInternalServerError, Code: "internal", Text: err.Error()}
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		f = &Failure{Status: http.StatusRequestEntityTooLarge, Code: "usage", Text: "the request is larger than 1 MiB"}
	} else if !errors.As(err, &f) && errors.Is(err, context.Canceled) {
		return // the client has disconnected
	}
	doc := schema.Problems{Head: schema.At(time.Now()), Problems: f.More, Warnings: []schema.Problem{}, Files: []schema.File{}}
	if len(doc.Problems) == 0 {
		doc.Problems = []schema.Problem{{Code: f.Code, Text: f.Text, Hint: schema.Known(f.Hint)}}
	}
	b, _ := json.Marshal(doc)
	if f.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	send(w, f.Status, b)
}

// send answers with JSON.
func send(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have disconnected
}
