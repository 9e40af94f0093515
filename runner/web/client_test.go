package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A client that oapi-codegen makes of the document talks to the server. make browser runs
// this: it loads the generator.
func TestGeneratedClient(t *testing.T) {
	if os.Getenv("GPURUN_WEB_CLIENT") == "" {
		t.Skip("make browser sets GPURUN_WEB_CLIENT")
	}
	f := newFake(t, 2)
	write(t, filepath.Join(f.dir, "log"), "0123456789")
	s := serve(t, f, Control)
	_, doc := s.get("/api/v1/openapi.json")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "openapi.json"), doc)
	write(t, filepath.Join(dir, "go.mod"), "module client\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "main.go"), strings.NewReplacer("URL", s.url, "TOKEN", controlToken, "BATCH", batchA).Replace(clientProgram))
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	run("run", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.4.1", "-generate", "types,client", "-package", "main", "-o", "client.go", "openapi.json")
	run("mod", "tidy")
	if got := run("run", "."); !strings.Contains(got, "200 1 batch; 2 jobs; train-s1 pending; 200 done; 401 token") {
		t.Errorf("the client says %q", got)
	}
	if len(f.asked) == 0 || f.asked[0] != "web.Stop {[train-s1] <nil> false}" {
		t.Errorf("it asked for %v", f.asked)
	}
}

const clientProgram = `package main

import (
	"context"
	"fmt"
	"net/http"
)

func main() {
	ctx := context.Background()
	c, err := NewClientWithResponses("URL", WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer TOKEN")
		return nil
	}))
	must(err)
	list, err := c.GetBatchesWithResponse(ctx)
	must(err)
	match := "S1"
	jobs, err := c.GetBatchesBatchJobsWithResponse(ctx, "BATCH", &GetBatchesBatchJobsParams{Match: &match})
	must(err)
	summary, err := c.GetBatchesBatchWithResponse(ctx, "BATCH")
	must(err)
	job := (*jobs.JSON200.Jobs)[0]
	stop, err := c.PostBatchesBatchStopWithResponse(ctx, "BATCH", Stop{Jobs: &[]string{job.Name}})
	must(err)
	stranger, err := NewClientWithResponses("URL")
	must(err)
	refused, err := stranger.GetBatchesWithResponse(ctx)
	must(err)
	fmt.Printf("%d %d batch; %d jobs; %s %s; %d %s; %d %s\n", list.StatusCode(), len(*list.JSON200.Batches), summary.JSON200.JobsTotal, job.Name, job.State,
		stop.StatusCode(), (*stop.JSON200.Said)[0], refused.StatusCode(), (*refused.JSONDefault.Problems)[0].Code)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
`
