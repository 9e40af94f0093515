package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"gpurun/jobspec"
	"gpurun/state/schema"
)

// ChildArg is the argument that makes this program the child that sends one message.
const ChildArg = "__notify"

// An order is what that child gets on stdin, where nobody else can read it.
type order struct {
	Service string `json:"service"` // one of jobspec's services, mail or command
	URL     string `json:"url,omitempty"`
	Command string `json:"command,omitempty"`

	News schema.News `json:"news"`
}

// command is the service of a Notify without URL.
const command = "command"

// ChildMain reads an order, carries it out, and says on stdout how that went.
func ChildMain(in io.Reader, out io.Writer) int {
	var o order
	if json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&o) != nil {
		return 1
	}
	// Whoever started it ends it after the same time, unless he has died meanwhile.
	time.AfterFunc(limit, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	ctx, stop := context.WithTimeout(context.Background(), limit-limit/20)
	defer stop()
	var how outcome
	switch o.Service {
	case jobspec.Mail:
		how = mail(ctx, &o)
	case command:
		how = execute(ctx, &o)
	default:
		how = post(ctx, &o)
	}
	if json.NewEncoder(out).Encode(how) != nil {
		return 1
	}
	return 0
}

// execute runs a command of the user's: the first line of its input is the news as JSON,
// the rest is text for people. Nobody sees its output, which may have secrets in it.
func execute(ctx context.Context, o *order) outcome {
	line, err := json.Marshal(&o.News)
	if err != nil {
		return outcome{Class: refused}
	}
	c := exec.CommandContext(ctx, "/bin/sh", "-c", o.Command)
	c.Stdin = bytes.NewReader([]byte(string(line) + "\n" + text(&o.News) + "\n"))
	c.WaitDelay = time.Second
	err = c.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return outcome{Class: silent}
	case errors.As(err, &exit):
		return outcome{Class: failed, Code: exit.ExitCode()}
	}
	return outcome{Class: delivered} // also if it did not read it all
}

// send has a child carry out an order, and ends it after limit.
func send(ctx context.Context, o *order) outcome {
	in, err := json.Marshal(o)
	if err != nil {
		return outcome{Class: broken}
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var said bytes.Buffer
	c := exec.CommandContext(ctx, "/proc/self/exe", ChildArg)
	c.Stdin, c.Stdout = bytes.NewReader(in), &said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it; a command of its own ends with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err = c.Run()
	var how outcome
	switch {
	case ctx.Err() != nil:
		return outcome{Class: silent}
	case err != nil || json.Unmarshal(said.Bytes(), &how) != nil:
		return outcome{Class: broken}
	}
	return how
}

// classOf returns what went wrong on the way to a server. The text of err may be a URL with
// its token, so nothing of it is kept.
func classOf(err error) outcome {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var wait net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return outcome{Class: unknownHost}
	case errors.As(err, &cert), errors.As(err, &record):
		return outcome{Class: untrusted}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &wait) && wait.Timeout():
		return outcome{Class: silent}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.As(err, &dns):
		return outcome{Class: unreachable}
	}
	return outcome{Class: broken}
}
