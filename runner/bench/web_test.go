package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
)

// listeners is how many clients listen to the events of a run.
const listeners = 100

// page measures gpurun web: how many summaries it serves, how much CPU time it uses, and how much
// it slows a run that 100 clients watch.
func (b *bench) page() {
	jobs := 2 * b.jobs
	idle := b.filled(jobFile(jobs))
	s := b.serve(idle.dir)
	b.table.over("summaries of "+humanize.Comma(int64(jobs))+" jobs", "%.0f requests/s", s.requests(b.serving), 10000, "/s")
	s.stop()

	var alone, watched, cpu series
	for range (b.rounds + 1) / 2 {
		for _, watch := range []bool{false, true} {
			dir := b.folder(jobFile(jobs))
			c := &contender{jobs: jobs, argv: []string{b.gpurun, "run", "jobs.yaml"}}
			if !watch {
				b.must(b.time(c, dir))
				alone = append(alone, c.rate[0])
				continue
			}
			s := b.serve(dir)
			gone := s.listen(listeners)
			before := s.cpu()
			b.must(b.time(c, dir))
			watched, cpu = append(watched, c.rate[0]), append(cpu, 100*(s.cpu()-before)/(c.millis[0]/1000))
			s.stop()
			gone()
		}
	}
	b.table.compare(fmt.Sprintf("run with %d clients", listeners), "%.0f jobs/s", watched, "without", alone, "≥", 0.97)
	b.table.under("gpurun web meanwhile", "%.1f%% of a core", cpu.median(), 10, "%")
}

// A server is a gpurun web process for one job file.
type server struct {
	*bench
	cmd   *exec.Cmd
	http  *http.Client
	token string
	batch string // API path of the batch
}

// serve starts a server on a socket.
func (b *bench) serve(dir string) *server {
	home := b.TempDir()
	socket := filepath.Join(home, "s")
	s := &server{bench: b, cmd: exec.Command(b.gpurun, "web", "--sim", "1x24GiB", "--listen", "unix:"+socket, "jobs.yaml")}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = dir, append(os.Environ(), "XDG_STATE_HOME="+home), os.Stderr
	said, err := s.cmd.StdoutPipe()
	b.must(err)
	b.must(s.cmd.Start())
	b.Cleanup(s.stop)
	first := make([]byte, 1)
	_, err = io.ReadFull(said, first) // it is listening now
	b.must(err)
	go io.Copy(io.Discard, said)
	token, err := os.ReadFile(filepath.Join(home, "gpurun", "web.token"))
	b.must(err)
	s.token = strings.TrimSpace(string(token))
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	list := s.ask("/api/v1/batches")
	defer list.Close()
	text, err := io.ReadAll(list)
	b.must(err)
	_, id, found := strings.Cut(string(text), `"id":"`)
	if !found {
		b.Fatalf("no batch in %s", text)
	}
	s.batch = "/api/v1/batches/" + id[:16]
	return s
}

func (s *server) stop() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT) // it may have ended
		s.must(s.cmd.Wait())
	}
}

// ask sends a request and returns the body of the response.
func (s *server) ask(path string) io.ReadCloser {
	r, err := http.NewRequest("GET", "http://localhost"+path, nil)
	s.must(err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.http.Do(r)
	s.must(err)
	if res.StatusCode != http.StatusOK {
		s.Fatalf("%s: status %d", path, res.StatusCode)
	}
	return res.Body
}

// requests returns how many summaries per second the server sends to 16 clients.
func (s *server) requests(during time.Duration) float64 {
	s.ask(s.batch).Close()
	var served atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for range 16 {
		clients.Go(func() {
			for time.Since(began) < during {
				body := s.ask(s.batch)
				_, _ = io.Copy(io.Discard, body)
				body.Close()
				served.Add(1)
			}
		})
	}
	clients.Wait()
	return float64(served.Load()) / time.Since(began).Seconds()
}

// listen makes clients listen to the events of the batch until the server ends.
func (s *server) listen(n int) (wait func()) {
	var clients sync.WaitGroup
	for range n {
		body := s.ask(s.batch + "/events")
		clients.Go(func() {
			_, _ = io.Copy(io.Discard, body)
			body.Close()
		})
	}
	return clients.Wait
}

// cpu returns the seconds of CPU time that the server has used.
func (s *server) cpu() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	s.must(err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var user, system float64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	s.must(err)
	return (user + system) / 100
}
