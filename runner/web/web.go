// Package web serves a user's batches and the state of this host to browsers and programs:
// a JSON API with its own OpenAPI document, events, figures for Prometheus, and the page.
// It only reads what runs have published; with the user's leave, it also steers them.
//
// Where the data comes from, and how runs are steered, is the Source's business.
package web

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"gpurun/runner/results"
	"gpurun/state/schema"
)

// A Source is what the server shows.
type Source interface {
	// Host reads the GPUs of this host.
	Host(ctx context.Context) (*schema.GPUs, error)
	// Usage returns who had how many GPU hours in the last days.
	Usage(ctx context.Context, days int) (*schema.Usage, error)
	// Batches returns the user's batches. A batch is the same value each time.
	Batches() []Batch
	// Start starts job files. It is only called where Config.Allow says Run.
	Start(Start) (said []string, err error)
	// Add appends a job to a batch's file. It is only called where Config.Allow says Run.
	Add(b Batch, command []string) (said []string, err error)
}

// A Batch is a batch of the user's. Methods may be called from any goroutine.
type Batch interface {
	// ID identifies it in paths: 16 hex digits.
	ID() string
	// Row describes it for the list of batches.
	Row() (*schema.BatchRow, error)
	// Look returns what is known of it now. It costs little if nothing has changed, and then
	// returns the same View.
	Look() (*schema.View, error)
	// Because explains one of its jobs, and lists the attempts of it.
	Because(file, key, name string) (*schema.Because, []schema.AttemptRow, error)
	// Attempts lists all attempts, oldest first.
	Attempts() ([]schema.AttemptRow, error)
	// Readings returns what was read of the GPUs while runs were alive; nil if there is nothing.
	Readings() *schema.Readings
	// Runs lists the runs, and GPUUsage where their GPU time went.
	Runs() (*schema.History, error)
	GPUUsage() (*schema.BatchUsage, error)
	// Results makes a table of what the jobs have measured.
	Results(results.Options) (*results.Table, error)
	// Log says where the log of an attempt is.
	Log(uniID string) (schema.LogPart, error)
	// Curves reads what an attempt has reported step by step.
	Curves(uniID string) ([]schema.Curve, error)
	// Do carries out a request: Stop, Retry and so on. It returns what has become of it, in
	// words. It is only called where Config.Allow says Control.
	Do(request any) (said []string, err error)
}

// A Right is what a token, or a server, allows.
type Right int

// Rights: each includes those before it.
const (
	None    Right = iota
	Read          // look at everything
	Control       // steer runs: stop, retry, and whatever starts no other code
	Run           // start code
)

var rightWords = map[Right]string{Read: "none", Control: "control", Run: "run"}

// Config is how a Server is to be.
type Config struct {
	Source  Source
	User    string
	Host    string // this machine
	Version string
	Allow   Right
	Roots   []string // see schema.Session
	Tokens  Tokens
	Names   []string // by which the server may be called, besides localhost, 127.0.0.1 and ::1
	Limits  Limits
	Errors  io.Writer         // for bugs
	Explain func(error) error // makes a Failure of an error of Source; nil leaves it as it is
}

// Limits bound what clients can do to the server.
type Limits struct {
	Header  time.Duration // to send a request's header
	Request time.Duration // to send its body, and to take the answer
	Write   time.Duration // to take one event
	Beat    time.Duration // between signs of life to those that wait for events
	Look    time.Duration // between two looks at a batch that somebody watches
	Host    time.Duration // between two readings of the GPUs while somebody watches
	Past    time.Duration // between two readings that are kept
	Idle    time.Duration // after which nobody counts as watching
}

// Usual are the limits outside tests.
var Usual = Limits{
	Header: 5 * time.Second, Request: 30 * time.Second, Write: 10 * time.Second, Beat: 15 * time.Second,
	Look: 250 * time.Millisecond, Host: 2 * time.Second, Past: 10 * time.Second, Idle: 10 * time.Second,
}

// A Server serves one user.
type Server struct {
	Config
	session string // see schema.Hello
	http    http.Server
	ctx     context.Context
	end     context.CancelFunc
	work    sync.WaitGroup

	host  *hostWatch
	list  *watch[*listing]
	feeds feeds
}

// New returns a server. It reads the GPUs from now on, for their last hour.
func New(c Config) *Server {
	s := &Server{Config: c, session: rand.Text()}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.feeds.all = map[string]*feed{}
	s.http = http.Server{
		Handler: s.guard(s.routes()), ReadHeaderTimeout: c.Limits.Header, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader - 4096, // net/http allows that much more, and what it has read at once
		ErrorLog:       quiet(),
	}
	s.host = s.watchHost()
	s.list = s.watchList()
	return s
}

// maxHeader bounds the header of a request.
const maxHeader = 16 << 10

// Serve answers requests until Close. It closes the listener.
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(l) }

// Close ends all connections, and waits until nothing reads any more.
func (s *Server) Close() {
	s.end()
	_ = s.http.Close()
	s.work.Wait()
}

// goes starts a goroutine that Close waits for.
func (s *Server) goes(f func()) {
	s.work.Go(func() {
		defer s.caught()
		f()
	})
}
