package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpurun/jobspec"
	"gpurun/state/schema"
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

func TestNotificationsMaskSecretsOfReloadedJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	batch := func(keys string) *jobspec.Batch {
		text := "settings: {notify: {command: cat}}\njobs: [{name: 'a{api_key}', matrix: {api_key: [" + keys + "]}, run: x}]\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := jobspec.Load([]string{path}, jobspec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	n := newApp().openNotifier(batch("k3yk3yk3y"), func(string) {})
	defer n.End(&schema.Status{Live: &schema.Live{}}, "done")
	if c, ok := any(n).(interface{ Continue(*jobspec.Batch) }); ok {
		c.Continue(batch("k3yk3yk3y, 0therk3y"))
	}
	if got := n.Hide("say k3yk3yk3y and 0therk3y"); got != "say *** and ***" {
		t.Errorf("got %q", got)
	}
}
