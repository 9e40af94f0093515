package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// ask sends a request to gpurun web and prints the status and the answer:
//
//	ask [-token FILE] [-host NAME] [-H NAME:VALUE] SOCKET METHOD PATH [JSON]
//
// SOCKET is the path of a socket, or of a file with the server's address. The default token allows
// only reading; "-token none" sends none. BATCH in PATH stands for the first batch. ask fails if the
// status is 400 or more.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	header, host, token := http.Header{}, "localhost", ".local/state/gpurun/web.token"
	for ; len(args) > 1 && strings.HasPrefix(args[0], "-"); args = args[2:] {
		switch args[0] {
		case "-token":
			token = args[1]
		case "-host":
			host = args[1]
		case "-H":
			name, value, _ := strings.Cut(args[1], ":")
			header.Set(name, value)
		}
	}
	if len(args) < 3 {
		ts.Fatalf("usage: ask [-token FILE] [-host NAME] [-H NAME:VALUE] SOCKET METHOD PATH [JSON]")
	}
	if token != "none" {
		header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(token)))
	}
	network, address := "unix", ts.MkAbs(args[0])
	if text, err := os.ReadFile(address); err == nil {
		_, where, _ := strings.Cut(string(text), "listening on http://")
		network, address = "tcp", where[:strings.IndexByte(where, '/')]
		if host == "localhost" {
			host = address
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
			if c, err = new(net.Dialer).DialContext(ctx, network, address); !errors.Is(err, syscall.ECONNREFUSED) {
				return c, err
			}
		} // the socket may exist before the server listens
		return c, err
	}}}
	send := func(method, path, body string) (int, http.Header, string) {
		r, err := http.NewRequest(method, "http://"+host+path, strings.NewReader(body))
		ts.Check(err)
		r.Header = header.Clone()
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		res, err := client.Do(r)
		ts.Check(err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		ts.Check(err)
		return res.StatusCode, res.Header, string(text)
	}
	path := args[2]
	if strings.Contains(path, "BATCH") {
		_, _, list := send("GET", "/api/v1/batches", "")
		_, id, _ := strings.Cut(list, `"id":"`)
		path = strings.ReplaceAll(path, "BATCH", id[:min(16, len(id))])
	}
	status, got, body := send(args[1], path, strings.Join(args[3:], " "))
	var out bytes.Buffer
	fmt.Fprintln(&out, status)
	_ = got.Write(&out) // a buffer returns no error
	fmt.Fprintf(&out, "\n%s\n", body)
	_, err := ts.Stdout().Write(out.Bytes())
	ts.Check(err)
	if failed := status >= 400; failed != neg {
		ts.Fatalf("%s %s: status %d", args[1], args[2], status)
	}
}
