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

// A message goes one way between a runner and a keeper. Both sides pass over ops
// and fields that they do not know: the two may be of different versions when a
// newer gpurun adopts what an older one started.
//
// A frame is the length of a JSON text, the length of the environment behind it,
// both as four bytes, and the two. The environment is most of a launch, and is
// the same bytes here and in the child. In place of the JSON may be a packed text
// (packed.go).
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
	opAdopt  = "adopt" // is answered by running or unknown, or later by what becomes of it
	opAck    = "ack"   // the ledger has the reason of a stopping

	opOnGPU = "on-gpu" // these processes were seen on the attempt's GPUs

	opClaim    = "claim"    // is answered by claimed
	opStand    = "stand"    // says which processes a claim is for that the asker runs itself
	opWithdraw = "withdraw" // of a claim whose attempt is not launched; is answered by withdrawn
)

// Ops from the keeper.
const (
	opRunning  = "running"
	opStep     = "step" // a further command of the list runs
	opStopping = "stopping"
	opBehind   = "background" // the commands have ended, what they left goes on
	opEnded    = "ended"
	opUnknown  = "unknown" // no such attempt; its record may tell
	opClaimed  = "claimed" // and what others hold, or why not

	opWithdrawn = "withdrawn" // nobody sees the claim any more
	opWarn      = "warn"      // of what the keeper does by itself
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

// encodePacked appends the frame of a message that is packable.
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
	due     bool        // out is to be written now
	writing bool        // the writer has something in hand that comes before out
	soon    *time.Timer // makes it due; nil while nothing is put off
	full    sync.Cond
	done    bool
	gone    chan struct{} // closed when the writer has ended
}

// putOff is how long a message may wait for another to go with it.
const putOff = 5 * time.Millisecond

// A conn is what a link needs of a connection.
type conn interface {
	io.ReadWriteCloser
	SetWriteDeadline(time.Time) error
}

// newLink starts the writer; its reader is receive.
func newLink(c net.Conn, same bool, start func(func())) *link {
	l := &link{conn: c, same: same, gone: make(chan struct{})}
	l.full.L = &l.mu
	if u, ok := c.(*net.UnixConn); ok {
		if s, err := newSocket(u); err == nil { // or c does it as well, at more cost
			l.conn = s
		}
	}
	start(l.write)
	return l
}

// send queues a message. What a broken connection does not take is dropped: the
// receiver notices, and the records on disk tell.
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

// queue puts a message behind what is to be written. l.mu is held.
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

// now writes what the other side has room for. It is at work on it before the next
// thing is done here; the writer would wait until there is nothing more to do.
// l.mu is held.
func (l *link) now() {
	if s, ok := l.conn.(*socket); ok && !l.writing {
		n, _ := s.sendNow(l.out)
		l.out = l.out[:copy(l.out, l.out[n:])]
	}
}

// sendSoon queues a message that nobody is in a hurry for: of a job that ends at
// once, its beginning and its end are one write, and wake the other side once.
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

// flush has everything that is queued written now. l.mu is held.
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

// close lets what is queued out, for a moment at most, and ends the connection.
func (l *link) close() {
	l.mu.Lock()
	l.done = true
	l.flush()
	l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	<-l.gone
}
