package notify

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gpurun/jobspec"
)

// mailServer starts a mail server for one connection, and sends everything that it received to told.
// answer is its response to the command that begins with at: a line, "" to disconnect, or "hang".
func mailServer(t *testing.T, host, at, answer string) (addr string, told chan string) {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	told = make(chan string, 1)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var all strings.Builder
		defer func() { told <- all.String() }()
		in := bufio.NewScanner(conn)
		say := func(line, good string) bool {
			if at != "" && strings.HasPrefix(line, at) {
				if answer == "hang" {
					<-stop
				}
				fmt.Fprintf(conn, "%s\r\n", answer)
				return answer != ""
			}
			fmt.Fprintf(conn, "%s\r\n", good)
			return true
		}
		if !say("HELLO", "220 here") {
			return
		}
		data := false
		for in.Scan() {
			line := in.Text()
			all.WriteString(line + "\n")
			good := "250 ok"
			switch {
			case data && line != ".":
				continue
			case data:
				data, line = false, "END"
			case strings.HasPrefix(line, "EHLO"):
				good = "250-here\r\n250 AUTH PLAIN"
			case strings.HasPrefix(line, "AUTH"):
				good = "235 yes"
			case line == "DATA":
				good, data = "354 go on", true
			case line == "QUIT":
				good = "221 bye"
			}
			if !say(line, good) {
				return
			}
		}
	}()
	return l.Addr().String(), told
}

func TestMailOutcomes(t *testing.T) {
	for _, c := range []struct {
		name, at, answer, host string
		want                   outcome
	}{
		{"delivered", "", "", "", outcome{Class: delivered}},
		{"wrong password", "AUTH", "535 no", "", outcome{Class: unauthorized, Code: 535}},
		{"no such user", "RCPT", "550 no", "", outcome{Class: refused, Code: 550}},
		{"temporary error", "END", "451 later", "", outcome{Class: troubled, Code: 451}},
		{"message rejected", "END", "550 spam", "", outcome{Class: refused, Code: 550}},
		{"no greeting", "HELLO", "", "", outcome{Class: broken}},
		{"no response", "END", "hang", "", outcome{Class: silent}},
		{"password without encryption", "", "", "127.0.0.2", outcome{Class: unencrypted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, told := mailServer(t, cmp.Or(c.host, "127.0.0.1"), c.at, c.answer)
			o, bad := resolve(&jobspec.Notify{URL: "smtp://me:$TOKEN@" + addr + "?to=Ann <a+gpu@example.org>, b@example.org&from=c@example.org"}, tokens)
			if bad.Class != "" {
				t.Fatal(bad)
			}
			o.Notification = news()
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			if c.answer == "hang" {
				stop()
				ctx, stop = context.WithTimeout(context.Background(), 100*time.Millisecond)
			}
			defer stop()
			if got := mail(ctx, &o); got != c.want {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			if c.name != "delivered" {
				return
			}
			got := <-told
			for _, want := range []string{
				"MAIL FROM:<c@example.org>", "RCPT TO:<a+gpu@example.org>", "RCPT TO:<b@example.org>", "To: a+gpu@example.org, b@example.org\n", "Subject: sweep.yaml on gpu01", "\n\na: failed, <!channel>", "w=C3=B6rter", "after 2h",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%q lacks %q", got, want)
				}
			}
		})
	}
}
