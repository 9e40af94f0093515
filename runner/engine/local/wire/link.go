package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"

	"gpurun/runner/engine"
)

// A Link is one side of a connection. A frame consists of the length of a JSON text, in eight
// bytes, and the text itself. Sending never waits for the other side, which may be stopped.
type Link struct {
	conn net.Conn
	mu   sync.Mutex
	out  []byte
	done bool
	news chan struct{} // poked when out or done has changed
	gone chan struct{} // closed when the writer has ended
}

const longestFrame = 64 << 20

// NewLink starts the link's writer by calling start. Receive reads from the link.
func NewLink(c net.Conn, start func(func())) *Link {
	l := &Link{conn: c, news: make(chan struct{}, 1), gone: make(chan struct{})}
	start(l.write)
	return l
}

// Send queues a message. Messages on a broken connection are dropped: the receiver notices
// the break, and the records on disk have the facts.
func (l *Link) Send(m *Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return net.ErrClosed
	}
	frame, err := encode(m)
	if err != nil {
		return err
	}
	l.out = append(l.out, frame...)
	engine.Poke(l.news)
	return nil
}

func (l *Link) write() {
	defer close(l.gone)
	defer l.conn.Close()
	for range l.news {
		l.mu.Lock()
		b, last := l.out, l.done
		l.out = nil
		l.mu.Unlock()
		_, err := l.conn.Write(b)
		if err == nil && !last {
			continue
		}
		l.mu.Lock()
		l.done = true
		l.mu.Unlock()
		return
	}
}

// Receive hands every message to f until the connection ends.
func (l *Link) Receive(f func(*Message)) error {
	r := bufio.NewReader(l.conn)
	for {
		m, err := decode(r)
		if err != nil {
			return err
		}
		f(m)
	}
}

// Close waits up to a second for queued messages to be sent, then closes the connection.
func (l *Link) Close() {
	l.mu.Lock()
	l.done = true
	engine.Poke(l.news)
	l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	<-l.gone
}

func encode(m *Message) ([]byte, error) {
	c := struct {
		Message
		Ended json.RawMessage `json:"ended,omitempty"`
	}{Message: *m}
	c.Version = Version
	if m.Launch != nil {
		c.Launch = legible(m.Launch)
	}
	if m.Ended != nil {
		// A runner that is too old to send a version does not check versions either, so include
		// the field names that it reads.
		end, err := json.Marshal(m.Ended)
		if err != nil {
			return nil, err
		}
		c.Ended = json.RawMessage(string(end[:len(end)-1]) + "," + former.Replace(string(end[1:])))
	}
	text, err := json.Marshal(&c)
	if err != nil {
		return nil, err
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// endNames lists the field names that an end had up to version 2, each followed by today's name.
var endNames = []string{`"ExitCode":`, `"exit":`, `"At":`, `"ended":`, `"Elapsed":`, `"elapsed_ns":`, `"OOMKilled":`, `"oom_killed":`,
	`"Err":`, `"error":`, `"LeftOver":`, `"left_over":`, `"LeftRunning":`, `"left_running":`, `"PeakHost":`, `"peak_host_memory_bytes":`, `"Readings":`, `"peak_readings":`}

// renamed replaces the field names of version 2 and earlier with today's names; former does the
// reverse.
var renamed, former = strings.NewReplacer(endNames...), strings.NewReplacer(reversed(endNames)...)

func reversed(names []string) []string {
	names = slices.Clone(names)
	slices.Reverse(names)
	return names
}

func decode(r io.Reader) (*Message, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, err
	}
	if size > longestFrame {
		return nil, fmt.Errorf("frame of %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	m := &Message{}
	err := json.Unmarshal(text, m)
	if m.Ended != nil && m.Version < 3 {
		m = &Message{}
		err = json.Unmarshal([]byte(renamed.Replace(string(text))), m)
	}
	if err != nil {
		return nil, err
	}
	if m.Launch != nil {
		m.Launch = exact(m.Launch)
	}
	return m, nil
}
