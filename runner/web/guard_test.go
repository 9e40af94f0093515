package web

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// The server refuses foreign host names, which DNS rebinding may point at its address, and requests
// from pages of other sites, even on another port of this host.
func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	s := serve(t, newFake(t, 1), Control)
	port := s.url[strings.LastIndexByte(s.url, ':'):]
	for _, c := range []struct {
		host, origin, site string
		status             int
	}{
		{host: "127.0.0.1" + port, status: 200},
		{host: "localhost" + port, status: 200},
		{host: "LOCALHOST:1", status: 200}, // a port forwarded by ssh
		{host: "[::1]" + port, status: 200},
		{host: "evil.example" + port, status: 403},
		{host: "evil.example", status: 403},
		{host: "127.0.0.1.evil.example" + port, status: 403},
		{host: "localhost.", status: 403},
		{host: "10.1.2.3" + port, status: 403},
		{host: "gpu01", status: 403}, // the server listens on loopback only
		{host: "127.0.0.1" + port, origin: "http://127.0.0.1" + port, status: 200},
		{host: "127.0.0.1" + port, origin: "http://127.0.0.1:1", status: 403},
		{host: "127.0.0.1" + port, origin: "http://localhost" + port, status: 403},
		{host: "127.0.0.1" + port, origin: "http://evil.example", status: 403},
		{host: "127.0.0.1" + port, origin: "null", status: 403},
		{host: "127.0.0.1" + port, site: "cross-site", status: 403},
		{host: "127.0.0.1" + port, site: "same-site", status: 403}, // another port
		{host: "127.0.0.1" + port, site: "same-origin", status: 200},
		{host: "127.0.0.1" + port, site: "none", status: 200},
	} {
		for _, path := range []string{"/", "/api/v1"} {
			res, _ := s.do("GET", path, readToken, "", func(r *http.Request) {
				r.Host = c.host
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				if c.site != "" {
					r.Header.Set("Sec-Fetch-Site", c.site)
				}
			})
			want := c.status
			if want == 200 && path == "/" && strings.HasPrefix(strings.ToLower(c.host), "localhost:") {
				want = 307 // TestPageRedirectsFromLocalhost
			}
			if res.StatusCode != want {
				t.Errorf("%s, %+v: status %d, want %d", path, c, res.StatusCode, want)
			}
			if h := res.Header; h.Get("Access-Control-Allow-Origin") != "" || h.Get("Set-Cookie") != "" {
				t.Errorf("%s: unexpected CORS or cookie header: %v", path, h)
			}
		}
	}
	if res, _ := s.do("OPTIONS", "/api/v1/batches/"+batchA+"/stop", "", "", nil); res.StatusCode < 400 || res.Header.Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("a preflight gets %d %v", res.StatusCode, res.Header)
	}
}

// An operation that reads, controls a run or starts other code requires the right to do so.
func TestOperationsRequireTheirRight(t *testing.T) {
	ids := strings.NewReplacer("{batch}", batchA, "{job}", fmt.Sprintf("%032x", 0), "{uni_id}", "good")
	for _, allow := range []Right{Read, Control, Run} {
		f := newFake(t, 1)
		write(t, filepath.Join(f.dir, "log"), "0123456789")
		s := serve(t, f, allow)
		for _, op := range operations() {
			needs := Control
			switch {
			case op.path == "/hello":
				needs = None
			case op.method == "GET":
				needs = Read
			case op.path == "/runs" || strings.HasSuffix(op.path, "/add"):
				needs = Run
			}
			if op.right != needs {
				t.Errorf("%s %s needs the right %d, want %d", op.method, op.path, op.right, needs)
			}
			path := base + ids.Replace(op.path)
			if op.media == eventStream {
				path = base // same check, without waiting for events
			}
			body := ""
			if op.body != nil {
				body = "{}"
			}
			if op.path == "/hello" {
				path += "?nonce=0123456789abcdef"
			}
			for token, has := range map[string]Right{"": None, "x": None, readToken + "0": None, readToken[1:]: None, readToken: Read, controlToken: allow} {
				want := 200
				switch {
				case needs == None:
				case has == None:
					want = 401
				case has < needs:
					want = 403
				}
				f.asked = nil
				res, text := s.do(op.method, path, token, body, nil)
				if res.StatusCode != want {
					t.Errorf("server with right %d, %s %s with token %q: status %d, want %d: %s", allow, op.method, path, token, res.StatusCode, want, text)
				}
				if want != 200 && len(f.asked) > 0 {
					t.Errorf("%s %s was refused, but %v was done", op.method, path, f.asked)
				}
			}
		}
		for i, how := range []func(*http.Request){
			func(r *http.Request) { r.Header.Set("Authorization", "Basic "+readToken) },
			func(r *http.Request) { r.Header.Set("Authorization", readToken) },
			func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "token", Value: readToken}) },
			func(r *http.Request) { r.URL.RawQuery = "token=" + readToken },
		} {
			if res, _ := s.do("GET", "/api/v1/batches", "", "", how); res.StatusCode != 401 {
				t.Errorf("token passed in unsupported way %d: status %d, want 401", i, res.StatusCode)
			}
		}
		if res, _ := s.do("GET", "/metrics", "", "", nil); res.StatusCode != 401 {
			t.Errorf("/metrics without a token: status %d", res.StatusCode)
		}
	}
}

func TestServerNeverSendsToken(t *testing.T) {
	s := serve(t, newFake(t, 1), Control)
	for _, path := range []string{"/", "/api/v1", "/api/v1/nothing?x=" + readToken, "/api/v1/batches?" + readToken, "/" + readToken, "/api/v1/openapi.json", "/metrics", "/api/v1/hello?nonce=0123456789abcdef"} {
		res, body := s.get(path)
		asked := strings.Contains(path, readToken) // an error may repeat the path
		for _, token := range []string{readToken, controlToken} {
			if strings.Contains(fmt.Sprint(res.Header), token) || strings.Contains(body, token) && !asked {
				t.Errorf("%s: the token is in the answer", path)
			}
		}
		if res.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: Referrer-Policy is not no-referrer, so browsers may send the address to other sites", path)
		}
	}
}

func TestPathsCannotEscape(t *testing.T) {
	f := newFake(t, 1)
	write(t, filepath.Join(f.dir, "log"), "0123456789")
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, "a secret")
	if err := os.Symlink(outside, filepath.Join(f.dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, f, Run)
	nasty := []string{"..", ".", "%2e%2e", "..%2f..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "good%00", "good%2f..%2flog", "link", "%5c..%5c", "*", "a%0d%0aSet-Cookie:x=y", strings.Repeat("a", 8000), "$(id)", "-rf"}
	for _, op := range operations() {
		for _, name := range []string{"{batch}", "{job}", "{uni_id}"} {
			if !strings.Contains(op.path, name) || op.media == eventStream && name != "{batch}" {
				continue
			}
			for _, bad := range nasty {
				path := base + strings.NewReplacer(name, bad, "{batch}", batchA, "{job}", fmt.Sprintf("%032x", 0), "{uni_id}", "good").Replace(op.path)
				res, body := s.do(op.method, path, controlToken, "{}", nil)
				if res.StatusCode < 300 || strings.Contains(body, "secret") || strings.Contains(body, "root:") || res.Header.Get("Set-Cookie") != "" {
					t.Errorf("%s %s: status %d: %s", op.method, path, res.StatusCode, body)
				}
			}
		}
	}
	for _, bad := range append(nasty, "page.html%2f..", "..%2fweb.go", "bundle", "../web.go", "page.html/") {
		if res, body := s.get("/" + bad); res.StatusCode < 300 && !strings.HasPrefix(body, "<!doctype html>") {
			t.Errorf("/%s: status %d: %.80s", bad, res.StatusCode, body)
		}
	}
	for _, call := range f.asked {
		if strings.HasPrefix(call, "job ") {
			t.Errorf("the server looked up a job that does not exist: %s", call)
		}
	}
}

func TestLogIsPlainTextOfOneAttempt(t *testing.T) {
	f := newFake(t, 1)
	text := "head:<script>0123456789</script>tail"
	write(t, filepath.Join(f.dir, "log"), text)
	s := serve(t, f, Read)
	path := "/api/v1/batches/" + batchA + "/attempts/good/log"
	for ranged, want := range map[string]string{"": text[5:25], "bytes=0-3": text[5:9], "bytes=-4": text[21:25], "bytes=18-": text[23:25], "bytes=18-10000": text[23:25]} {
		res, body := s.do("GET", path, readToken, "", func(r *http.Request) {
			if ranged != "" {
				r.Header.Set("Range", ranged)
			}
		})
		if body != want || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" || res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Gpurun-Over") != "true" {
			t.Errorf("%q: %d %q %v", ranged, res.StatusCode, body, res.Header)
		}
	}
	res, _ := s.do("GET", path, readToken, "", func(r *http.Request) { r.Header.Set("Range", "bytes=20-") })
	if res.StatusCode != 416 || res.Header.Get("Content-Range") != "bytes */20" {
		t.Errorf("a range past the end: %d %v", res.StatusCode, res.Header)
	}
	// A ticket gives access only to this log.
	res, _ = s.get(path)
	ticket := "?ticket=" + res.Header.Get("Gpurun-Ticket")
	for at, want := range map[string]int{path + ticket: 200, path + ticket + "0": 401, path + "?ticket=": 401, strings.Replace(path, "good", "link", 1) + ticket: 401, "/api/v1/batches/" + batchA + ticket: 401} {
		if res, body := s.do("GET", at, "", "", nil); res.StatusCode != want || want == 200 && body != text[5:25] {
			t.Errorf("%s: %d %q", at, res.StatusCode, body)
		}
	}
	if err := os.Remove(filepath.Join(f.dir, "log")); err != nil {
		t.Fatal(err)
	}
	if res, _ := s.get(path); res.StatusCode != 410 {
		t.Errorf("a deleted log: status %d, want 410", res.StatusCode)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	if res, _ := s.get(path); res.StatusCode != 410 {
		t.Errorf("a folder in place of the log: status %d, want 410", res.StatusCode)
	}
}

func TestLargeAnswersAreCompressed(t *testing.T) {
	for jobs, want := range map[int]string{1: "", 1000: "gzip"} {
		s := serve(t, newFake(t, jobs), Read)
		path := "/api/v1/batches/" + batchA + "/jobs"
		plain, all := s.do("GET", path, readToken, "", func(r *http.Request) { r.Header.Set("Accept-Encoding", "identity") })
		res, body := s.do("GET", path, readToken, "", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
		if got := res.Header.Get("Content-Encoding"); got != want || plain.Header.Get("Content-Encoding") != "" {
			t.Fatalf("%d jobs: encoding %q, want %q", jobs, got, want)
		}
		if want != "" {
			z, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			packed := len(body)
			read, err := io.ReadAll(z)
			if body = string(read); err != nil || packed*4 > len(body) {
				t.Errorf("%d bytes were compressed to %d, want at most a quarter; %v", len(body), packed, err)
			}
		}
		_, got, _ := strings.Cut(body, `"version"`) // the part before it contains the time
		if _, want, ok := strings.Cut(all, `"version"`); got != want || !ok {
			t.Errorf("%d jobs: the compressed answer differs from the plain one", jobs)
		}
	}
}

func TestLogSearchStaysInAttempt(t *testing.T) {
	f := newFake(t, 1)
	write(t, filepath.Join(f.dir, "log"), "head:Error one\nfine\nan ERROR\ntail error") // bytes 5 to 25 belong to the attempt
	s := serve(t, f, Read)
	path := "/api/v1/batches/" + batchA + "/attempts/good/search?text="
	for text, want := range map[string]string{"ERROR": `"count":1,"at":[0]`, "n": `"count":3,"at":[0,10,15]`, "head": `"count":0,"at":[]`, "": `"count":0,"at":[]`} {
		if _, got := s.get(path + text); !strings.HasSuffix(strings.TrimSpace(got), want+"}") {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	// A line longer than any buffer counts once. Only the last 1,000 matches have positions.
	write(t, filepath.Join(f.dir, "link"), strings.Repeat("x error ", 50_000)+"\n"+strings.Repeat("error\n", 3000))
	_, got := s.get("/api/v1/batches/" + batchA + "/attempts/link/search?text=error")
	var doc schema.Matches
	if err := json.Unmarshal([]byte(got), &doc); err != nil || doc.Count != 3001 || len(doc.At) != 1000 || doc.At[999] != 400_001+6*2999 {
		t.Errorf("got %d matches, %d with positions, %v", doc.Count, len(doc.At), err)
	}
}

func TestUserTextIsNeverMarkup(t *testing.T) {
	f := newFake(t, 2)
	evil := `</script><img src=x onerror="fetch('//evil.example')">`
	j := fakeJob(0, state.Failed)
	j.Name, j.Params, j.Metrics = evil, map[string]string{evil: evil}, map[string]any{evil: evil}
	f.set(j)
	s := serve(t, f, Read)
	for _, path := range []string{"", "/host", "/batches", "/batches/" + batchA, "/batches/" + batchA + "/jobs", "/batches/" + batchA + "/jobs/" + j.Key, "/batches/" + batchA + "/timeline", "/nothing" + evil, "/batches?" + evil} {
		res, body := s.get(base + strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20").Replace(path))
		if res.Header.Get("Content-Type") != "application/json" || strings.ContainsAny(body, "<>") || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s: %s", path, res.Header.Get("Content-Type"), body)
		}
	}
	res, page := s.get("/")
	policy := res.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	if strings.Contains(page, "<script>") || strings.Contains(page, "//") && strings.Contains(page, `src="//`) || strings.Contains(page, " on") && strings.Contains(page, "onload=") {
		t.Errorf("the page contains inline scripts, which the policy forbids:\n%s", page)
	}
}

func TestServerSendsNoSecrets(t *testing.T) {
	f := newFake(t, 1)
	j := fakeJob(0, state.Failed)
	j.Params, j.Commands = map[string]string{"api_key": "hushhush"}, []string{"HF_TOKEN=hushhush python train.py --password hushhush", "echo hushhush"}
	f.set(j)
	f.view.Secrets = []string{"hushhush"}
	f.view.Status.Run = &schema.Run{Settings: map[string]string{"program": "SECRET=hushhush x"}, Params: map[string]string{"token": "hushhush"}}
	s := serve(t, f, Read)
	for _, path := range []string{"/host", "/batches/" + batchA, "/batches/" + batchA + "/jobs", "/batches/" + batchA + "/jobs/" + j.Key} {
		if _, body := s.get(base + path); strings.Contains(body, "hushhush") || !strings.Contains(body, "***") {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// Clients that send too slowly or too much are dropped, while other clients are served.
func TestSlowOrOversizedRequestsAreRefused(t *testing.T) {
	f := newFake(t, 1)
	s, strict := serve(t, f, Control), serve(t, f, Control, func(l *Limits) { l.Header, l.Request = time.Second, 2*time.Second })
	send := func(to *served, request string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(to.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, request) // the server may close the connection before it has read all
		return c
	}
	const endless = "GET /api/v1 HTTP/1.1\r\nHost: localhost\r\nX: "
	for range 200 {
		send(s, endless)
	}
	if res, _ := s.get("/api/v1/batches"); res.StatusCode != 200 {
		t.Errorf("a request while slow clients are connected: status %d", res.StatusCode)
	}
	stop := "POST /api/v1/batches/" + batchA + "/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + controlToken + "\r\nContent-Type: application/json\r\nContent-Length: "
	for what, request := range map[string]string{"header": endless, "body": stop + "100\r\n\r\n{"} {
		if _, err := io.ReadAll(send(strict, request)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a client that never finishes its %s was kept", what)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("incomplete requests caused %v", f.asked)
	}

	body := `{"jobs":["` + strings.Repeat("x", 1<<20) + `"]}`
	for want, request := range map[int]string{431: endless + strings.Repeat("x", 20<<10) + "\r\n\r\n", 413: stop + fmt.Sprint(len(body)) + "\r\n\r\n" + body} {
		if res, err := http.ReadResponse(bufio.NewReader(send(s, request)), nil); err != nil || res.StatusCode != want {
			t.Errorf("an oversized request: %v, %+v, want status %d", err, res, want)
		}
	}
	path := "/api/v1/batches/" + batchA + "/stop"
	for _, body := range []string{"", "null x", "[]", `{"jobs":"x"}`, `{"jobs":[]}`, `{"jobs":[]}{}`, `{"job":[]}`, strings.Repeat(`{"jobs":[`, 20000)} {
		if res, _ := s.do("POST", path, controlToken, body, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }); res.StatusCode != 400 {
			t.Errorf("body %.20q: status %d, want 400", body, res.StatusCode)
		}
	}
	if res, _ := s.do("POST", path, controlToken, `{}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }); res.StatusCode != 415 {
		t.Errorf("a content type that forms of other sites can send: status %d, want 415", res.StatusCode)
	}
	if len(f.asked) > 0 {
		t.Errorf("invalid requests caused %v", f.asked)
	}
}

func TestHelloProvesTokenWithoutRevealingIt(t *testing.T) {
	s := serve(t, newFake(t, 1), Control)
	_, one := s.do("GET", "/api/v1/hello?nonce=0123456789abcdef", "", "", nil)
	if want := fmt.Sprintf("%x", proof(readToken, "0123456789abcdef", strings.TrimPrefix(s.url, "http://"))); !strings.Contains(one, want) {
		t.Errorf("got %s, want the proof %s in it", one, want)
	}
	if res, _ := s.do("GET", "/api/v1/hello?nonce=x", "", "", nil); res.StatusCode != 400 {
		t.Errorf("a nonce that is too short: status %d, want 400", res.StatusCode)
	}
}

// A page sends a value derived from its token. The value has the rights of the token, but only on one
// server.
func TestPageSecretIsValidForOneServer(t *testing.T) {
	s, later := serve(t, newFake(t, 1), Control), serve(t, newFake(t, 1), Control)
	var h schema.Hello
	_, text := s.do("GET", "/api/v1/hello?nonce=0123456789abcdef", "", "", nil)
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	for token, control := range map[string]string{readToken: "none", controlToken: "control"} {
		own := fmt.Sprintf("%x", mac(token, "session "+h.Session))
		if res, text := s.do("GET", "/api/v1", own, "", nil); res.StatusCode != 200 || !strings.Contains(text, `"control":"`+control+`"`) {
			t.Errorf("its own server answers %d, %s", res.StatusCode, text)
		}
		if res, _ := later.do("GET", "/api/v1", own, "", nil); res.StatusCode != 401 {
			t.Errorf("another server answers %d, want 401", res.StatusCode)
		}
	}
}

// Suppose another user listens on the port of a server that has exited, and relays hello to a new
// server on another port. An open page still uses the old address, so the proof must not be valid for
// it.
func TestRelayedHelloProvesNothing(t *testing.T) {
	s := serve(t, newFake(t, 1), Control)
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, err := http.Get(s.url + r.URL.String())
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		io.Copy(w, res.Body)
	}))
	defer relay.Close()
	const nonce = "0123456789abcdef"
	res, err := http.Get(relay.URL + base + "/hello?nonce=" + nonce)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var h schema.Hello
	if err := json.NewDecoder(res.Body).Decode(&h); err != nil || h.Control == nil {
		t.Fatalf("%+v, %v", h, err)
	}
	at := strings.TrimPrefix(relay.URL, "http://")
	for token, got := range map[string]string{readToken: h.Read, controlToken: *h.Control} {
		if got == fmt.Sprintf("%x", proof(token, nonce, at)) {
			t.Errorf("the relayed proof is valid for %s", at)
		}
	}
	if h.Address == at {
		t.Errorf("the server claims to listen on the relay's address %s", at)
	}
}

// The page must be at a numeric address: localhost may also mean ::1, where another user may listen.
func TestPageRedirectsFromLocalhost(t *testing.T) {
	s := serve(t, newFake(t, 1), Read)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	r, err := http.NewRequest("GET", s.url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "localhost:" + port
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, want := res.Header.Get("Location"), s.url+"/"; got != want {
		t.Errorf("localhost redirects to %q, want %q", got, want)
	}
}

// lines returns a scanner for the lines of a stream.
func lines(r io.Reader) *bufio.Scanner {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 16<<20)
	return sc
}
