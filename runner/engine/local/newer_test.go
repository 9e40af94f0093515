package local

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
)

// A runner waits for the jobs of a keeper whose messages it does not understand, and takes
// their ends from their records.
func TestKeeperOfNewerVersion(t *testing.T) {
	s := newScene(t, "echo up >up")
	at := s.launch.Identity
	rec := &wire.Record{UniID: at.UniID, State: wire.StateOpen, Steps: 1}
	f, err := wire.CreateRecord(at.Dir, rec)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ln, err := net.Listen("unix", filepath.Join(s.dir, "keeper-00000000.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ends := make(chan bool)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		var size uint64
		_ = binary.Read(c, binary.LittleEndian, &size)
		_, _ = io.ReadFull(c, make([]byte, size)) // adopt
		for range 2 {
			m, _ := json.Marshal(wire.Message{Version: wire.Version + 1, Op: wire.Ended, UniID: at.UniID, Ended: &engine.Ended{}})
			_, _ = c.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(m))), m...))
		}
		<-ends
	}()
	l, err := openLocal(engine.Config{Dir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Adopt(engine.Attempt{Identity: at})
	if ev := <-l.Events(); len(ev.Warnings) != 1 || !strings.Contains(ev.Warnings[0], "version 2; this gpurun knows up to 1") {
		t.Fatalf("got %+v, want a warning with both versions", ev)
	}
	rec.State, rec.Exit, rec.Ended = wire.StateOver, 7, time.Now()
	if err := rec.Put(f); err != nil {
		t.Fatal(err)
	}
	close(ends)
	if ev := <-l.Events(); ev.Ended == nil || ev.Ended.ExitCode != 7 {
		t.Errorf("got %+v, want the end in the record", ev)
	}
}
