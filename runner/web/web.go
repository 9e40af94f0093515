// Package web serves a user's batches and the state of this host to browsers and programs: a JSON
// API with an OpenAPI document, events, Prometheus metrics, and the page. It reads the state that
// runs publish and, if the user allows it, controls the runs.
//
// A Source provides the data and controls the runs.
package web

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"gpurun/runner/results"
	"gpurun/state/schema"
)

// A Source provides the data that the server shows.
type Source interface {
	// Host reads the GPUs of this host.
	Host(ctx context.Context) (*schema.GPUs, error)
	// Usage returns the GPU hours by user over the given number of days.
	Usage(ctx context.Context, days int) (*schema.Usage, error)
	// Batches returns the user's batches. Every call returns the same value for a batch.
	Batches() []Batch
	// Start starts a run of job files. It is only called if Config.Allow permits Run.
	Start(Start) (said []string, err error)
}

// A Batch is one of the user's batches. Its methods are safe for concurrent use.
type Batch interface {
	// ID identifies the batch in paths: 16 hex digits.
	ID() string
	// Row describes the batch for the list of batches.
	Row() (*schema.BatchRow, error)
	// Look returns the current state of the batch. If nothing has changed, it is cheap and returns
	// the same View.
	Look() (*schema.View, error)
	// Job explains the state of a job and lists its attempts.
	Job(file, key, name string) (*schema.JobDetail, error)
	// Timeline lists all attempts.
	Timeline() (*schema.Timeline, error)
	// Readings returns the GPU readings from all runs, or nil if there are none.
	Readings() *schema.Readings
	// Runs lists the runs. GPUUsage returns how their GPU time was used.
	Runs() (*schema.History, error)
	GPUUsage() (*schema.BatchUsage, error)
	// Results makes a table of the jobs' metrics.
	Results(results.Options) (*results.Table, error)
	// Log returns where the log of an attempt is.
	Log(uniID string) (schema.LogPart, error)
	// Curves reads the metrics that an attempt reported, by step.
	Curves(uniID string) ([]schema.Curve, error)
	// Do performs a request such as Stop or Retry, and returns messages about its effect. Unless
	// file is "", it limits the request to jobs of that job file. Do is only called if Config.Allow
	// permits Control or, for Add, Run.
	Do(file string, request any) (said []string, err error)
}

// A Right is what a token or a server permits.
type Right int

// Rights. Each includes the ones before it.
const (
	None    Right = iota
	Read          // read everything
	Control       // control runs without starting other code: stop, retry, and so on
	Run           // start code
)

var rightWords = map[Right]string{Read: "none", Control: "control", Run: "run"}

// Config configures a Server.
type Config struct {
	Source  Source
	User    string
	Host    string // name of this host
	Version string
	Allow   Right
	Roots   []string // see schema.Session
	Tokens  Tokens
	Names   []string // names of the server other than localhost, 127.0.0.1 and ::1
	Limits  Limits
	Errors  io.Writer         // receives reports of bugs
	Explain func(error) error // converts an error of Source to a Failure; nil leaves it unchanged
}

// Limits protect the server from its clients.
type Limits struct {
	Header  time.Duration // for a client to send a request's header
	Request time.Duration // for a client to send the body and accept the answer
	Write   time.Duration // for a client to accept one event
	Beat    time.Duration // between keep-alives while a client waits for events
	Look    time.Duration // between readings of a batch that a client watches
	Host    time.Duration // between readings of the GPUs while a client watches
	Past    time.Duration // between readings that are kept
	Idle    time.Duration // after which a client no longer counts as watching
}

// DefaultLimits are the limits in production.
var DefaultLimits = Limits{
	Header: 5 * time.Second, Request: 30 * time.Second, Write: 10 * time.Second, Beat: 15 * time.Second,
	Look: 250 * time.Millisecond, Host: 2 * time.Second, Past: 10 * time.Second, Idle: 10 * time.Second,
}

// A Server serves one user's batches.
type Server struct {
	Config
	session string // see schema.Hello
	http    http.Server
	ctx     context.Context
	end     context.CancelFunc
	work    sync.WaitGroup

	host *hostWatch
	list *watch[*listing]

	mu    sync.Mutex
	feeds map[string]*feed // by batch
}

// New returns a server. Until Close, it regularly reads the GPUs, to keep the readings of the last
// hour.
func New(c Config) *Server {
	if c.Explain == nil {
		c.Explain = func(err error) error { return err }
	}
	s := &Server{Config: c, session: rand.Text(), feeds: map[string]*feed{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler: s.guard(s.routes()), ReadHeaderTimeout: c.Limits.Header, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader - 4096,           // net/http adds 4096 bytes
		ErrorLog:       log.New(io.Discard, "", 0), // it would report misbehaving clients
	}
	s.host = s.watchHost()
	s.list = s.watchList()
	return s
}

// maxHeader is the largest header of a request, in bytes.
const maxHeader = 16 << 10

// Serve answers requests on a listener until Close, which closes the listener.
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(l) }

// Close ends all connections and waits for all readers.
func (s *Server) Close() {
	s.end()
	_ = s.http.Close()
	s.work.Wait()
}

// spawn starts a goroutine that Close waits for.
func (s *Server) spawn(f func()) {
	s.work.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				s.report(p)
			}
		}()
		f()
	})
}
