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

// An order is the input of the child. It is passed on stdin, which other users cannot read.
type order struct {
	Service string `json:"service"` // one of jobspec's services, mail or command
	URL     string `json:"url,omitempty"`
	Command string `json:"command,omitempty"`

	Notification schema.Notification `json:"news"`
}

// command is the service of a Notify without a URL.
const command = "command"

// ChildMain reads an order, carries it out, and prints the outcome on stdout.
func ChildMain(in io.Reader, out io.Writer) int {
	var o order
	if json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&o) != nil {
		return 1
	}
	// Kill this process after limit even if the parent, which would do the same, has died.
	defer time.AfterFunc(limit, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }).Stop()
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

// execute runs a user's command. The first line of its input is the message as JSON, and the rest
// is text. Its output is discarded, because it may contain secrets.
func execute(ctx context.Context, o *order) outcome {
	line, err := json.Marshal(&o.Notification)
	if err != nil {
		return outcome{Class: refused}
	}
	c := exec.CommandContext(ctx, "/bin/sh", "-c", o.Command)
	c.Stdin = bytes.NewReader([]byte(string(line) + "\n" + text(&o.Notification) + "\n"))
	c.WaitDelay = time.Second
	err = c.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return outcome{Class: slow}
	case errors.As(err, &exit):
		return outcome{Class: failed, Code: exit.ExitCode()}
	}
	return outcome{Class: delivered} // even if it did not read all of its input
}

// send makes a child carry out an order, and ends the child after limit.
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
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach the child, and the child's own command must end with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err = c.Run()
	var how outcome
	switch {
	case ctx.Err() != nil && o.Command != "":
		return outcome{Class: slow}
	case ctx.Err() != nil:
		return outcome{Class: silent}
	case err != nil || json.Unmarshal(said.Bytes(), &how) != nil:
		return outcome{Class: broken}
	}
	return how
}

// classOf returns the outcome for a server that could not be reached. The text of err may contain a
// URL with its token, so none of the text is kept.
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
