package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// webhook starts a server that answers POST /STATUS/… with that status and never answers /hang/….
// It sets HOOK to the server's address. For each request, it adds a line to the file received: the
// first element of the path, since the rest may be secret, and the message.
func webhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: webhook")
	}
	var mu sync.Mutex
	received, stop := ts.MkAbs("received"), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		how := strings.Split(r.URL.Path, "/")[1]
		mu.Lock()
		f, err := os.OpenFile(received, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			fmt.Fprintf(f, "%s %s\n", how, body)
			f.Close()
		}
		mu.Unlock()
		if how == "hang" {
			select {
			case <-stop:
			case <-r.Context().Done():
			}
			return
		}
		status, _ := strconv.Atoi(how)
		w.WriteHeader(status)
	}))
	ts.Defer(func() { close(stop); s.Close() })
	ts.Setenv("HOOK", s.URL)
}
