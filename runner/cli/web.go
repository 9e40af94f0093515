package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/web"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

type webCmd struct {
	gpuFlags `embed:""`
	Files    []string    `arg:"" optional:"" name:"file" help:"Job files to show (default: all that gpurun ls lists)."`
	Listen   string      `placeholder:"ADDRESS" help:"HOST:PORT or unix:PATH (default: 127.0.0.1:8888, or the next free port)."`
	Control  controlFlag `placeholder:"run" help:"Allow steering runs. With --control=run, also allow adding and starting jobs."`
	Root     []string    `placeholder:"DIR" sep:"none" help:"Let --control=run start only job files below DIR (repeatable)."`
	TLSCert  string      `name:"tls-cert" placeholder:"FILE" help:"TLS certificate, for addresses that other machines can reach."`
	TLSKey   string      `name:"tls-key" placeholder:"FILE" help:"Private key of the certificate."`
	Insecure bool        `help:"Listen without TLS: others on the network can read the token."`
}

func (webCmd) Help() string {
	return helpText("The printed address contains a token that keeps other users out; Ctrl-C stops the server.",
		"gpurun web",
		"gpurun web --control jobs.yaml",
		"gpurun web --control=run --root ~/experiments")
}

// controlFlag is --control or --control=run.
type controlFlag struct{ web.Right }

// Decode accepts a value only after "=".
func (c *controlFlag) Decode(ctx *kong.DecodeContext) error {
	c.Right = web.Control
	if t := ctx.Scan.Peek(); t.Type == kong.FlagValueToken {
		if v := ctx.Scan.Pop().String(); v != "run" {
			return fmt.Errorf("unknown value %q: write --control or --control=run", v)
		}
		c.Right = web.Run
	}
	return nil
}

// defaultPort is the default port. If it is taken, the next otherPorts ports are tried.
const (
	defaultPort = 8888
	otherPorts  = 50
)

// Run serves until Ctrl-C.
func (c *webCmd) Run(a *app) error {
	roots, err := c.roots()
	if err != nil {
		return err
	}
	src, err := a.webSource(c, roots)
	if err != nil {
		return err
	}
	defer src.host.close()
	conf := web.Config{
		Source: src, User: host.UserName(os.Getuid()), Host: disk.Host().Host, Version: programVersion(), Allow: max(web.Read, c.Control.Right), Roots: roots,
		Limits: web.DefaultLimits, Errors: a.Err, Explain: webFailure,
	}
	files, err := tokens(&conf)
	if err != nil {
		return &batches.Failure{Code: batches.ExitState, Text: "cannot store the token: " + err.Error(), Err: err}
	}
	l, where, err := c.listen(&conf)
	if err != nil {
		return err
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	s := web.New(conf)
	defer s.Close()
	c.printAddress(a, &conf, where, files)
	ended := make(chan error, 1)
	a.Go(func() { ended <- s.Serve(l) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return &batches.Failure{Code: batches.ExitState, Text: "the server ended: " + err.Error(), Err: err}
	}
}

// roots returns the folders whose job files clients may run.
func (c *webCmd) roots() (roots []string, err error) {
	switch starts := c.Control.Right == web.Run; {
	case !starts && len(c.Root) > 0:
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--root works only with --control=run"}
	case starts && len(c.Root) == 0:
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--control=run needs --root DIR, the folder of the job files that clients may start"}
	}
	if roots, err = rootFolders(c.Root); err != nil {
		return nil, err
	}
	home := realHome()
	for i, real := range roots {
		if real == "/" || real == home {
			return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--root " + c.Root[i] + " is too broad: pass the folder of your experiments"}
		}
	}
	return roots, nil
}

// tokens sets the tokens and returns the files that contain them.
func tokens(c *web.Config) (files []string, err error) {
	var path string
	if c.Tokens.Read, path, err = disk.Token("web"); err != nil {
		return nil, err
	}
	files = append(files, path)
	if c.Allow > web.Read {
		if c.Tokens.Control, path, err = disk.Token("web-control"); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

// listen opens the socket and returns its address without the token.
func (c *webCmd) listen(conf *web.Config) (l net.Listener, where string, err error) {
	if path, ok := strings.CutPrefix(c.Listen, "unix:"); ok {
		l, err = listenUnix(path)
		return l, path, err
	}
	scheme := "http"
	if c.TLSCert != "" || c.TLSKey != "" {
		scheme = "https"
	}
	name := "127.0.0.1"
	switch {
	case c.Listen == "":
		for n := defaultPort; n <= defaultPort+otherPorts; n++ {
			if l, err = net.Listen("tcp", net.JoinHostPort(name, strconv.Itoa(n))); !errors.Is(err, syscall.EADDRINUSE) {
				break
			}
		}
	default:
		if name, _, err = net.SplitHostPort(c.Listen); err != nil {
			return nil, "", &batches.Failure{Code: batches.ExitUsage, Text: "--listen " + c.Listen + ": write HOST:PORT or unix:PATH", Err: err}
		}
		if name != "localhost" && !net.ParseIP(name).IsLoopback() { // other machines can reach this address
			if scheme == "http" && !c.Insecure {
				return nil, "", &batches.Failure{Code: batches.ExitUsage, Text: "--listen " + c.Listen + ": others could read the traffic, including the token",
					Hint: "add --tls-cert and --tls-key, forward a port with ssh instead, or add --insecure"}
			}
			conf.Names = append(conf.Names, ownNames(name)...)
		}
		l, err = net.Listen("tcp", c.Listen)
	}
	if err != nil {
		return nil, "", &batches.Failure{Code: batches.ExitState, Text: "cannot listen: " + err.Error(), Hint: "choose another address with --listen, e.g. 127.0.0.1:0 for any free port", Err: err}
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if name == "" || net.ParseIP(name).IsUnspecified() {
		name = disk.Host().Host
	}
	where = scheme + "://" + net.JoinHostPort(name, port) + "/"
	if scheme == "http" {
		return l, where, nil
	}
	cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		l.Close()
		return nil, "", &batches.Failure{Code: batches.ExitUsage, Text: "--tls-cert, --tls-key: " + err.Error(), Err: err}
	}
	// HTTP/2 is disabled because its streams share a connection, while the time limits are per
	// request.
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}), where, nil
}

// ownNames returns the names of a server that listens on an address. If it listens on all
// addresses, these are the names of this machine.
func ownNames(name string) []string {
	if name != "" && !net.ParseIP(name).IsUnspecified() {
		return []string{strings.ToLower(name)}
	}
	full := strings.ToLower(disk.Host().Host)
	short, _, _ := strings.Cut(full, ".")
	return []string{full, short}
}

// listenUnix opens a socket for this user alone. It replaces a socket left by a dead server.
func listenUnix(path string) (net.Listener, error) {
	fault := func(err error) error {
		return &batches.Failure{Code: batches.ExitState, Text: "cannot listen on " + path + ": " + err.Error(), Err: err}
	}
	if fi, err := os.Lstat(path); err == nil {
		if fi.Mode()&os.ModeSocket == 0 {
			return nil, fault(errors.New("it exists but is not a socket"))
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil, fault(errors.New("another server is listening there"))
		}
		os.Remove(path)
	}
	was := syscall.Umask(0o177) // other users must not be able to open the socket, not even for a moment
	l, err := net.Listen("unix", path)
	syscall.Umask(was)
	if err != nil {
		return nil, fault(err)
	}
	return ownOnly{l.(*net.UnixListener)}, nil
}

// ownOnly drops connections from other users, whatever the socket's mode.
type ownOnly struct{ *net.UnixListener }

func (l ownOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if host.SameUser(c) {
			return c, nil
		}
		c.Close()
	}
}

// printAddress prints how to open the page. It prints the tokens only on a terminal, because any other
// reader may store the output.
func (c *webCmd) printAddress(a *app, conf *web.Config, where string, files []string) {
	if !strings.HasPrefix(where, "http") {
		fmt.Fprintf(a.out, "listening on %s; send the header Authorization: Bearer TOKEN, with the token from %s\n", where, strings.Join(files, " or (for control) "))
		return
	}
	if !a.OutTTY {
		fmt.Fprintf(a.out, "listening on %s; the token is in %s\n", where, strings.Join(files, ", and the control token in "))
		return
	}
	at := ""
	if len(c.Files) == 1 {
		at = "/batch/" + conf.Source.Batches()[0].ID()
	}
	if conf.Tokens.Control == "" {
		fmt.Fprintf(a.out, "%s#token=%s%s\n", where, conf.Tokens.Read, at)
	} else {
		fmt.Fprintf(a.out, "to view:              %s#token=%s%s\nto view and control:  %s#token=%s%s\n", where, conf.Tokens.Read, at, where, conf.Tokens.Control, at)
	}
	if os.Getenv("SSH_CONNECTION") != "" && c.Listen == "" {
		_, port, _ := net.SplitHostPort(strings.TrimSuffix(where[len("http://"):], "/"))
		fmt.Fprintf(a.out, "first, on your own machine, run: ssh -L %s:127.0.0.1:%s %s\n", port, port, cmp.Or(conf.Host, "HOST"))
	}
	fmt.Fprintln(a.out, "press Ctrl-C to stop")
}

// webFailure converts an error to a web.Failure, which the server reports to the client.
func webFailure(err error) error {
	err = problemsFailure(err)
	var f *batches.Failure
	if errors.As(err, new(*web.Failure)) || errors.Is(err, context.Canceled) || !errors.As(err, &f) {
		return err
	}
	w := &web.Failure{Status: statusCodes[f.Code], Code: schema.FailureCode(f.Code), Text: f.Text, Hint: f.Hint, More: problemDocs(jobspec.Problems(err))}
	switch {
	case errors.Is(err, batches.ErrNotFound):
		w.Status, w.Code = http.StatusNotFound, "not_found"
	case errors.Is(err, batches.ErrOverwritten):
		w.Status, w.Code = http.StatusGone, schema.FailureCode(batches.ExitState)
	}
	if len(f.Lines) > 0 {
		w.Text += "\n" + strings.Join(f.Lines, "\n")
	}
	return w
}

// statusCodes are HTTP status codes by exit status.
var statusCodes = map[int]int{batches.ExitFailed: 409, batches.ExitUsage: 422, batches.ExitState: 503, batches.ExitInternal: 500, batches.ExitNotYet: 409, batches.ExitGaveUp: 409, batches.ExitInt: 503, batches.ExitTerm: 503}
