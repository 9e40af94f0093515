package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpurun/state/schema"
)

// The document must be valid OpenAPI, and the answers of every operation must match it.
func TestAnswersMatchOpenAPIDocument(t *testing.T) {
	f := newFake(t, 2)
	write(t, filepath.Join(f.dir, "log"), "0123456789")
	s := serve(t, f, Run)
	_, text := s.get("/api/v1/openapi.json")
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(loader.Context); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	ids := strings.NewReplacer("{batch}", batchA, "{job}", fmt.Sprintf("%032x", 0), "{uni_id}", "good")
	seen := map[string]bool{}
	for _, op := range operations() {
		if op.media == eventStream {
			continue // never ends
		}
		path := base + ids.Replace(op.path)
		if op.path == "/hello" {
			path += "?nonce=0123456789abcdef"
		}
		body := ""
		if op.body != nil {
			b, _ := json.Marshal(op.body)
			body = string(b)
		}
		for _, token := range []string{controlToken, ""} {
			res, answer := s.do(op.method, path, token, body, nil)
			r, _ := http.NewRequest(op.method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			route, params, err := router.FindRoute(r)
			if err != nil {
				t.Errorf("%s %s: %v", op.method, path, err)
				continue
			}
			in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
			if err := openapi3filter.ValidateRequest(loader.Context, in); err != nil {
				t.Errorf("%s %s: the request: %v", op.method, path, err)
			}
			out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(strings.NewReader(answer))}
			if err := openapi3filter.ValidateResponse(loader.Context, out); err != nil {
				t.Errorf("%s %s, status %d: %v\n%s", op.method, path, res.StatusCode, err, answer)
			}
			if token != "" && res.StatusCode != 200 {
				t.Errorf("%s %s: status %d: %s", op.method, path, res.StatusCode, answer)
			}
		}
		id := operationID(&op)
		if seen[id] {
			t.Errorf("duplicate operation ID %s", id)
		}
		seen[id] = true
	}
}

// Prometheus's own parser must accept the metrics, even with hostile names.
func TestPrometheusParsesMetrics(t *testing.T) {
	f := newFake(t, 2)
	f.view.Status.Batch.Files[0].Path = "/home/\"me\"\\\n{x}\xff.yaml"
	s := serve(t, f, Read)
	_, text := s.get("/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, want := range map[string]float64{"gpurun_gpu_utilization_ratio": 0.42, "gpurun_gpu_memory_used_bytes": 1 << 30, "gpurun_gpu_claimed": 1, "gpurun_runs_waiting": 0, "gpurun_run_alive": 0, "gpurun_jobs": 2} {
		m := families[name]
		if m == nil || m.GetMetric()[0].GetGauge().GetValue() != want {
			t.Errorf("%s: %v, want %g", name, m, want)
		}
	}
	labels := families["gpurun_jobs"].GetMetric()[0].GetLabel()
	if got := labels[1].GetValue(); got != "/home/\"me\"\\\n{x}\uFFFD.yaml" {
		t.Errorf("the file label is %q", got)
	}
}

var update = flag.Bool("update", false, "rewrite the types of runner/ui")

// The TypeScript types of the page and the report must match the documents. make web updates them.
func TestTypeScriptIsCurrent(t *testing.T) {
	s := serve(t, newFake(t, 0), Run)
	schemas := s.Document()["components"].(object)["schemas"].(object)
	shape(reflect.TypeFor[schema.Report](), schemas)
	var out strings.Builder
	out.WriteString("// Made from the documents of the API and the report: go test ./runner/web -run TypeScript -update.\n")
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		o := schemas[name].(object)
		required, _ := o["required"].([]string)
		fmt.Fprintf(&out, "export interface %s {", name)
		fields := o["properties"].(object)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			optional := "?"
			if slices.Contains(required, field) {
				optional = ""
			}
			fmt.Fprintf(&out, "\n  %s%s: %s;", field, optional, typeScript(fields[field].(object)))
		}
		out.WriteString("\n}\n")
	}
	file := "../ui/src/common/types.ts"
	if *update {
		write(t, file, out.String())
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != out.String() {
		t.Errorf("%s is out of date: run go test ./runner/web -run TypeScript -update (%v)", file, err)
	}
}

// typeScript returns the TypeScript type of a field. Lists and maps without a null type are never
// null.
func typeScript(o object) string {
	kind := "unknown"
	all, _ := o["allOf"].([]any)
	switch {
	case all != nil:
		kind = typeScript(all[0].(object))
	case o["$ref"] != nil:
		kind = path.Base(o["$ref"].(string))
	case o["type"] == "array":
		return "(" + typeScript(o["items"].(object)) + ")[]"
	case o["additionalProperties"] != nil:
		return "Record<string, " + typeScript(o["additionalProperties"].(object)) + ">"
	case o["type"] == "integer":
		kind = "number"
	case o["type"] != nil:
		kind = o["type"].(string)
	}
	if o["nullable"] == true {
		kind += " | null"
	}
	return kind
}
