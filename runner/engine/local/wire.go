package local

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
)

// A message goes one way between a runner and a keeper. Both sides ignore ops and fields
// that they do not know, because their versions may differ when a newer gpurun adopts
// jobs of an older one.
//
// A frame is the length of a JSON text and the length of the environment after it, four
// bytes each, followed by the two. The environment is most of a launch, and is the same
// bytes here and in the child. A packed text (packed.go) may replace the JSON.
type message struct {
	Op      string          `json:"op"`
	UniID   string          `json:"uni_id,omitempty"`
	Launch  *engine.Launch  `json:"launch,omitempty"` // Env is empty
	Why     string          `json:"why,omitempty"`
	How     engine.How      `json:"how,omitempty"`
	Running *engine.Running `json:"running,omitempty"`
	PIDs    []int           `json:"pids,omitempty"`
	Ended   *engine.Ended   `json:"ended,omitempty"`

	Background *engine.Background `json:"background,omitempty"`

	Claim    *claimRequest `json:"claim,omitempty"`
	Claims   []gpu.Claim   `json:"claims,omitempty"`
	Warnings []string      `json:"warnings,omitempty"`
	Err      string        `json:"err,omitempty"`

	env []byte
}

// Ops to the keeper.
const (
	opLaunch = "launch"
	opStop   = "stop"
	opAdopt  = "adopt" // answered by running, unknown, or later by ended
	opAck    = "ack"   // the ledger has the reason for a stopping

	opOnGPU = "on-gpu" // these processes were seen on the attempt's GPUs

	opClaim    = "claim"    // answered by claimed
	opStand    = "stand"    // names the processes a claim is for that the sender runs itself
	opWithdraw = "withdraw" // ends a claim or part of it; answered by withdrawn
)

// Ops from the keeper.
const (
	opRunning  = "running"
	opStep     = "step" // the next command is running
	opStopping = "stopping"
	opBehind   = "background" // the commands have ended, but processes they left keep running
	opEnded    = "ended"
	opUnknown  = "unknown" // no such attempt; look at its record
	opClaimed  = "claimed" // with other runs' claims, or why it failed

	opWithdrawn = "withdrawn" // nobody sees the claim any more
	opWarn      = "warn"      // about the keeper's own work
)

const maxFrame = 64 << 20

// encode appends the frame of a message to b.
func (m *message) encode(b []byte) ([]byte, error) {
	head, err := json.Marshal(m)
	if err != nil {
		return b, err
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.env)))
	return append(append(b, head...), m.env...), nil
}

// encodePacked appends the frame of a packable message.
func (m *message) encodePacked(b []byte) []byte {
	at := len(b)
	b = pack(append(b, make([]byte, 8)...), m)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-8)|packedFrame)
	binary.LittleEndian.PutUint32(b[at+4:], uint32(len(m.env)))
	return append(b, m.env...)
}

// readMessage reads one frame.
func readMessage(r *bufio.Reader) (*message, error) {
	var sizes [8]byte
	if _, err := io.ReadFull(r, sizes[:]); err != nil {
		return nil, err
	}
	n, e := binary.LittleEndian.Uint32(sizes[:]), binary.LittleEndian.Uint32(sizes[4:])
	packed := n&packedFrame != 0
	if n &^= packedFrame; n > maxFrame || e > maxFrame {
		return nil, fmt.Errorf("frame of %d and %d bytes", n, e)
	}
	b := make([]byte, n+e)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	m := &message{env: b[n:]}
	if packed {
		return m, unpack(string(b[:n]), m)
	}
	return m, json.Unmarshal(b[:n], m)
}

// A link is one side of a connection. Sending never waits for the other side.
type link struct {
	same    bool // the other side is this very program: messages may be packed
	conn    conn
	mu      sync.Mutex
	out     []byte
	due     bool        // out should be written now
	writing bool        // the writer is still writing what comes before out
	soon    *time.Timer // makes out due; nil while nothing is put off
	full    sync.Cond
	done    bool
	gone    chan struct{} // closed when the writer has ended
}

// putOff is how long a message may wait to be sent together with another.
const putOff = 5 * time.Millisecond

// A conn is the part of a connection that a link needs.
type conn interface {
	io.ReadWriteCloser
	SetWriteDeadline(time.Time) error
}

// newLink starts the link's writer; receive is its reader.
func newLink(c net.Conn, same bool, start func(func())) *link {
	l := &link{conn: c, same: same, gone: make(chan struct{})}
	l.full.L = &l.mu
	if u, ok := c.(*net.UnixConn); ok {
		if s, err := newSocket(u); err == nil { // otherwise c works too, at a higher cost
			l.conn = s
		}
	}
	start(l.write)
	return l
}

// send queues a message. Messages on a broken connection are dropped: the receiver
// notices that it is broken, and the records on disk have the facts.
func (l *link) send(m *message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.queue(m); err != nil {
		return err
	}
	l.now()
	l.flush()
	return nil
}

// queue appends a message to the output. l.mu is held.
func (l *link) queue(m *message) (err error) {
	if l.done {
		return net.ErrClosed
	}
	if l.same && packable(m) {
		l.out = m.encodePacked(l.out)
		return nil
	}
	l.out, err = m.encode(l.out)
	return err
}

// now writes as much as the other side has room for, so that it can start working at
// once. The writer goroutine would run only once this process has nothing else to do.
// l.mu is held.
func (l *link) now() {
	if s, ok := l.conn.(*socket); ok && !l.writing {
		n, _ := s.sendNow(l.out)
		l.out = l.out[:copy(l.out, l.out[n:])]
	}
}

// sendSoon queues a message that is not urgent. If a job ends at once, its beginning and
// its end become one write and wake the other side once.
func (l *link) sendSoon(m *message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.queue(m); err != nil {
		return err
	}
	if l.soon == nil {
		l.soon = time.AfterFunc(putOff, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.flush()
		})
	}
	return nil
}

// flush makes the writer write everything that is queued. l.mu is held.
func (l *link) flush() {
	if l.soon != nil {
		l.soon.Stop()
		l.soon = nil
	}
	if l.due = len(l.out) > 0; l.due || l.done {
		l.full.Signal()
	}
}

func (l *link) write() {
	defer close(l.gone)
	var spare []byte
	for {
		l.mu.Lock()
		for !l.due && !l.done {
			l.full.Wait()
		}
		b := l.out
		l.out, l.due = spare[:0], false
		l.writing = len(b) > 0
		l.mu.Unlock()
		if len(b) == 0 {
			l.conn.Close()
			return
		}
		_, err := l.conn.Write(b)
		l.mu.Lock()
		l.writing = false
		l.done = l.done || err != nil
		l.mu.Unlock()
		spare = b
		if cap(spare) > 1<<20 {
			spare = nil
		}
	}
}

// receive hands every message to f until the connection ends.
func (l *link) receive(f func(*message)) error {
	r := bufio.NewReaderSize(l.conn, 64<<10)
	for {
		m, err := readMessage(r)
		if err != nil {
			return err
		}
		f(m)
	}
}

// close lets queued messages out, for a moment at most, and closes the connection.
func (l *link) close() {
	l.mu.Lock()
	l.done = true
	l.flush()
	l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	<-l.gone
}
