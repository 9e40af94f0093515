package notify

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/jobspec/settings"
	"gpurun/state/schema"
)

var update = flag.Bool("update", false, "rewrite testdata/requests.txt")

// Servers in these tests are on this host or do not exist, so no proxy may answer for them.
func init() { os.Setenv("NO_PROXY", "*") }

const secret = "T0/B0/s3cr3tS3cr3t"

func news() schema.Notification {
	return schema.Notification{
		Head: schema.At(time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)), Title: "sweep.yaml on gpu01: jobs failed, 1 succeeded, 2 failed",
		Message: "a: failed, <!channel> & \"wörter\" @everyone\nafter 2h", On: []string{"done"}, File: "sweep.yaml", Host: "gpu01", Jobs: []schema.NotificationJob{},
	}
}

// server starts a server that responds according to the first element of the path.
func server(t *testing.T, got func(*http.Request, []byte)) string {
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got(r, body)
		switch how, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); how {
		case "hang":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "close":
			panic(http.ErrAbortHandler)
		case "redirect":
			http.Redirect(w, r, "/200/login", http.StatusFound)
		case "odd":
			io.WriteString(w, `{"errcode": 310000, "code": 19024, "ok": false}`)
		default:
			status := map[string]int{"200": 200, "204": 204, "400": 400, "401": 401, "403": 403, "404": 404, "410": 410, "429": 429, "500": 500}[how]
			w.WriteHeader(status)
			if status != 204 {
				io.WriteString(w, `{"errcode": 0, "code": 0}`)
			}
		}
	}))
	t.Cleanup(func() { close(stop); s.Close() })
	return s.URL
}

// Servers accept, refuse, redirect, disconnect or hang. No outcome may contain the URL.
func TestServiceOutcomesHideTheURL(t *testing.T) {
	at := server(t, func(*http.Request, []byte) {})
	for _, service := range settings.Services() {
		for path, want := range map[string]outcome{
			"200": {Class: delivered}, "204": {Class: delivered},
			"400": {Class: refused, Code: 400}, "401": {Class: unauthorized, Code: 401}, "403": {Class: unauthorized, Code: 403}, "404": {Class: gone, Code: 404}, "410": {Class: gone, Code: 410},
			"429": {Class: tooMany, Code: 429}, "500": {Class: troubled, Code: 500}, "redirect": {Class: moved, Code: 302},
			"close": {Class: broken}, "hang": {Class: silent},
		} {
			o, bad := resolve(&jobspec.Notify{URL: service + "+" + at + "/" + path + "/$TOKEN"}, tokens)
			if bad.Class != "" || o.Service != service {
				t.Fatalf("%s: %+v, %s", service, o, bad)
			}
			o.Notification = news()
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			if path == "hang" {
				stop()
				ctx, stop = context.WithTimeout(context.Background(), 100*time.Millisecond)
			}
			got := post(ctx, &o)
			stop()
			if got != want {
				t.Errorf("%s, %s: got %+v, want %+v", service, path, got, want)
			}
			if kept := got.String() + got.fix(); strings.Contains(kept, "s3cr3t") || kept == "" {
				t.Errorf("%s, %s: text is empty or contains the token: %q", service, path, kept)
			}
		}
	}
	for service, want := range map[string]outcome{
		"feishu": {Class: refused, Code: 19024}, "dingtalk": {Class: refused, Code: 310000}, "wecom": {Class: refused, Code: 310000}, "slack": {Class: delivered},
	} {
		if got := post(context.Background(), &order{Service: service, URL: at + "/odd", Notification: news()}); got != want {
			t.Errorf("%s refuses with status 200: got %+v, want %+v", service, got, want)
		}
	}
}

func tokens(name string) (string, bool) { return secret, name == "TOKEN" }

// Before you accept a change to testdata/requests.txt, compare it with the service's documentation.
func TestRequestsToEachService(t *testing.T) {
	var all strings.Builder
	at := server(t, func(r *http.Request, body []byte) {
		all.WriteString(r.Method + " " + r.Header.Get("Content-Type") + "\n")
		if title := r.Header.Get("Title"); title != "" {
			all.WriteString("Title: " + title + "\n")
		}
		all.WriteString(string(body) + "\n\n")
	})
	for _, service := range settings.Services() {
		all.WriteString("== " + service + "\n")
		if got := post(context.Background(), &order{Service: service, URL: at + "/200/x?chat_id=-100", Notification: news()}); !got.ok() {
			t.Errorf("%s: %s", service, got)
		}
	}
	const path = "testdata/requests.txt"
	if *update {
		if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || all.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", all.String(), want)
	}
}

func TestUnreachableServersAreClassified(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for url, want := range map[string]class{
		s.URL: untrusted,
		strings.Replace(s.URL, "https", "http", 1): refused, // a TLS server answers HTTP with 400
		dead.URL: unreachable,
		strings.Replace(dead.URL, "http", "https", 1): unreachable,
		"http://no-such-host.invalid/":                unknownHost,
	} {
		got := post(context.Background(), &order{Service: "webhook", URL: url, Notification: news()})
		if got.Class != want && !(want == unknownHost && got.Class == unreachable) { // on a machine without a resolver
			t.Errorf("%s: got %s, want %s", url, got.Class, want)
		}
	}
}

// Every service that a job file can name has a request format, and every class has a text and a
// fix.
func TestEveryServiceHasARequest(t *testing.T) {
	for _, name := range settings.Services() {
		if shapes[name].body == nil {
			t.Errorf("%s has no request format", name)
		}
	}
	if len(shapes) != len(settings.Services()) {
		t.Errorf("got %d request formats for %d services", len(shapes), len(settings.Services()))
	}
	for c, words := range classes {
		if words.text == "" || words.fix == "" && c != delivered {
			t.Errorf("class %s lacks a text or a fix", c)
		}
	}
}

func TestResolveReplacesVariables(t *testing.T) {
	env := map[string]string{
		"URL": "https://hooks.slack.com/services/T0/B0/xyz\n", "PASS": "p@ss/w:rd+1 %", "PATH_PART": "T0/B0/xyz", "EMPTY": "",
	}
	for _, c := range []struct{ url, service, address string }{
		{"$URL", "slack", "https://hooks.slack.com/services/T0/B0/xyz"},
		{"${URL}", "slack", "https://hooks.slack.com/services/T0/B0/xyz"},
		{"https://hooks.slack.com/services/$PATH_PART", "slack", "https://hooks.slack.com/services/T0/B0/xyz"},
		{"slack+https://chat.lab.org/hooks/$PATH_PART", "slack", "https://chat.lab.org/hooks/T0/B0/xyz"},
		{"https://discord.com/api/webhooks/1/a", "discord", "https://discord.com/api/webhooks/1/a"},
		{"https://x.webhook.office.com/a", "teams", "https://x.webhook.office.com/a"},
		{"https://api.telegram.org/bot1:a/sendMessage?chat_id=5", "telegram", "https://api.telegram.org/bot1:a/sendMessage?chat_id=5"},
		{"https://ntfy.sh/topic", "ntfy", "https://ntfy.sh/topic"},
		{"https://notslack.com/hooks.slack.com", "webhook", "https://notslack.com/hooks.slack.com"},
		{"smtps://me:$PASS@mail.example.org?to=a@b", "mail", "smtps://me:p%40ss%2Fw%3Ard+1%20%25@mail.example.org?to=a@b"},
		{"smtp://me@example.org:$PASS@mail.example.org:587?to=a@b", "mail", "smtp://me%40example.org:p%40ss%2Fw%3Ard+1%20%25@mail.example.org:587?to=a@b"},
		{"smtps://me+jobs:$PASS@mail.example.org?to=a@b", "mail", "smtps://me+jobs:p%40ss%2Fw%3Ard+1%20%25@mail.example.org?to=a@b"},
	} {
		o, bad := resolve(&jobspec.Notify{URL: c.url}, func(n string) (string, bool) { v, ok := env[n]; return v, ok })
		if bad.Class != "" || o.Service != c.service || o.URL != c.address {
			t.Errorf("%s: %s %q, %s; want %s %q", c.url, o.Service, o.URL, bad.Class, c.service, c.address)
		}
	}
	for url, want := range map[string]class{"$NOPE": unset, "https://host/$EMPTY": unset, "$PATH_PART": badURL, "https://[$PATH_PART": badURL} {
		if o, bad := resolve(&jobspec.Notify{URL: url}, func(n string) (string, bool) { v, ok := env[n]; return v, ok }); bad.Class != want || o.URL != "" {
			t.Errorf("%s: %+v, %s, want %s", url, o, bad.Class, want)
		}
	}
}

// The child reads an order from stdin and returns only an outcome.
func TestChildReturnsOnlyTheOutcome(t *testing.T) {
	var urls []string
	at := server(t, func(r *http.Request, _ []byte) { urls = append(urls, r.URL.Path) })
	out := t.TempDir() + "/news"
	for _, c := range []struct {
		order order
		want  outcome
	}{
		{order{Service: "slack", URL: at + "/404/" + secret}, outcome{Class: gone, Code: 404}},
		{order{Service: command, Command: "cat >" + out}, outcome{Class: delivered}},
		{order{Service: command, Command: "echo $TOKEN >&2; exit 7"}, outcome{Class: failed, Code: 7}},
		{order{Service: command, Command: "true"}, outcome{Class: delivered}},
	} {
		c.order.Notification = news()
		in, _ := json.Marshal(c.order)
		var said strings.Builder
		var got outcome
		if code := ChildMain(strings.NewReader(string(in)), &said); code != 0 || json.Unmarshal([]byte(said.String()), &got) != nil || got != c.want {
			t.Errorf("%+v: %d, %q, want %+v", c.order, code, said.String(), c.want)
		}
		if strings.Contains(said.String(), "s3cr3t") {
			t.Errorf("the token is in the output: %q", said.String())
		}
	}
	text, err := os.ReadFile(out)
	first, rest, _ := strings.Cut(string(text), "\n")
	var got schema.Notification
	if err != nil || json.Unmarshal([]byte(first), &got) != nil || got.Title != news().Title || !strings.HasPrefix(rest, news().Title+"\n"+news().Message) {
		t.Errorf("the command got %q, %v", text, err)
	}
	if want := []string{"/404/" + secret}; !slices.Equal(urls, want) {
		t.Errorf("requested %q, want %q", urls, want)
	}
}
