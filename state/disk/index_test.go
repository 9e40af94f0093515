package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"gpurun/state"
)

// someFact returns a random fact, with few different keys so that they collide.
func someFact(r *rand.Rand, i int) state.Fact {
	key := fmt.Sprintf("%032x", r.IntN(12))
	if r.IntN(10) == 0 {
		key = "of another recipe"
	}
	uni := fmt.Sprint("u", r.IntN(30))
	at := time.Unix(1_700_000_000+int64(i), int64(r.IntN(1e9))).UTC()
	if r.IntN(4) == 0 {
		at = at.In(time.FixedZone("", 5400))
	}
	f := state.Fact{Time: at, Job: fmt.Sprint("job", r.IntN(15)), Key: key, UniID: uni, Attempt: r.IntN(3)}
	switch r.IntN(6) {
	case 0, 1:
		f.Kind, f.Needs, f.Log, f.Commands = state.KindStart, "2:ab", "/l/é.log", []string{"a", "b\n"}
		f.GPUs = []int{1, 2}
		if r.IntN(2) == 0 {
			f.Inputs = []state.Input{{Path: "/in", Size: 1 << 40, MTime: at, Hash: "cd"}, {Path: "/other"}}
		}
	case 2:
		f.Kind, f.PID, f.PIDStart = state.KindRunning, 7, 8
	case 3, 4:
		code := r.IntN(3) - 1
		f.Kind, f.State, f.ExitCode = state.KindEnd, []state.Phase{state.Succeeded, state.Failed, state.OOM, "later"}[r.IntN(4)], &code
		f.Seconds, f.Reason, f.PeakMemory, f.Signal = r.Float64()*1e5, "why", 1<<35, "SIGKILL"
		if r.IntN(3) == 0 {
			f.UniID, f.By, f.ExitCode = "", "done", nil
		}
	case 5:
		if f.Kind = state.KindForget; r.IntN(3) == 0 {
			f = state.Fact{Kind: state.KindRun, Time: at, Host: uni}
		}
	}
	return f
}

// fold reads a ledger, with its index if that is valid; then records are packed every
// few facts.
func fold(t *testing.T, path string, with bool) (*state.History, *reader) {
	t.Helper()
	h := state.NewHistory()
	r := newReader(path, func(f state.Fact) { h.Apply(0, f) })
	if with {
		r.into(h, 0, true)
		if fi, err := os.Stat(path); err == nil {
			r.each = 1 + int(fi.Size()%7)
		}
	}
	if err := r.read(); err != nil {
		t.Fatal(err)
	}
	return h, r
}

// same compares every query of two histories.
func same(t *testing.T, got, want *state.History) {
	t.Helper()
	if !reflect.DeepEqual(got.Open, want.Open) || got.Empty() != want.Empty() || got.Seq() != want.Seq() {
		t.Fatalf("open attempts %v, want %v; empty %v, want %v", got.Open, want.Open, got.Empty(), want.Empty())
	}
	all := func(h *state.History) map[string]state.Record {
		m := map[string]state.Record{}
		for r := range h.Records() {
			if _, twice := m[r.Key]; twice {
				t.Fatalf("key %s comes twice", r.Key)
			}
			m[r.Key] = *r
		}
		return m
	}
	if a, b := all(got), all(want); !reflect.DeepEqual(a, b) {
		t.Fatalf("records\n%+v\nwant\n%+v", a, b)
	}
	for i := range 16 {
		key, name := fmt.Sprintf("%032x", i), fmt.Sprint("job", i)
		if a, b := got.Of(0, key), want.Of(0, key); !reflect.DeepEqual(a, b) {
			t.Fatalf("key %s: %+v, want %+v", key, a, b)
		}
		if a, b := got.Named(0, name), want.Named(0, name); !reflect.DeepEqual(a, b) {
			t.Fatalf("name %s: %+v, want %+v", name, a, b)
		}
		if id, _ := keyID(key); got.Plain(0, id) && !want.Of(0, key).Plain() {
			t.Fatalf("key %s is not a plain success", key)
		}
	}
}

// writeFacts creates a ledger with some broken lines.
func writeFacts(t *testing.T, path string, facts []state.Fact) {
	t.Helper()
	var text bytes.Buffer
	for i, f := range facts {
		if i%29 == 28 {
			text.WriteString("{broken\n")
		}
		b, err := encode(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(b, '\n'))
	}
	if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// An index plus the lines after it gives the same result as all lines, wherever it
// was written, and whether it was built from lines or from another index.
func TestIndexAndTailAreTheLedger(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), ledgerName)
		facts := make([]state.Fact, r.IntN(120))
		for i := range facts {
			facts[i] = someFact(r, i)
		}
		for cut := 0; cut < len(facts); cut += 1 + r.IntN(60) {
			writeFacts(t, path, facts[:cut])
			h, rd := fold(t, path, true)
			if len(h.Open) > 0 {
				continue // never written then
			}
			if err := rd.writeIndex(); err != nil {
				t.Fatal(err)
			}
		}
		writeFacts(t, path, facts)
		want, whole := fold(t, path, false)
		got, tail := fold(t, path, true)
		same(t, got, want)
		if !slices.Equal(tail.warnings, whole.warnings) || tail.line != whole.line || !reflect.DeepEqual(tail.host, whole.host) {
			t.Fatalf("%d lines, warnings %q, want %d, %q", tail.line, tail.warnings, whole.line, whole.warnings)
		}
		for i := range 20 { // and as a run continues
			f := someFact(r, 1000+i)
			got.Apply(0, f)
			want.Apply(0, f)
		}
		same(t, got, want)
	}
}

// An index that does not match its ledger is ignored.
func TestStaleIndex(t *testing.T) {
	end := func(key, job string) state.Fact {
		return state.Fact{Kind: state.KindEnd, Key: key, Job: job, State: state.Succeeded, Time: time.Unix(1, 0).UTC()}
	}
	var facts []state.Fact
	for i := range 200 {
		facts = append(facts, end(fmt.Sprintf("%032x", i), fmt.Sprint("job", i)))
	}
	tests := []struct {
		name   string
		change func(t *testing.T, path string)
		used   bool
	}{
		{"as it was", func(*testing.T, string) {}, true},
		{"deleted", func(t *testing.T, path string) { os.Remove(indexPath(path)) }, false},
		{"empty", func(t *testing.T, path string) { os.Truncate(indexPath(path), 0) }, false},
		{"cut off", func(t *testing.T, path string) { os.Truncate(indexPath(path), 3000) }, false},
		{"a folder", func(t *testing.T, path string) { os.Remove(indexPath(path)); os.Mkdir(indexPath(path), 0o777) }, false},
		{"a shorter ledger", func(t *testing.T, path string) { writeFacts(t, path, facts[:150]) }, false},
		{"another ledger", func(t *testing.T, path string) {
			facts := append([]state.Fact(nil), facts...)
			facts[0] = end(facts[0].Key, "j0b0")
			writeFacts(t, path, facts)
		}, false},
		{"an edit of equal length in the middle", func(t *testing.T, path string) {
			facts := append([]state.Fact(nil), facts...)
			facts[100] = end(facts[100].Key, "j0b100")
			writeFacts(t, path, facts)
		}, false},
		{"another end", func(t *testing.T, path string) {
			facts := append([]state.Fact(nil), facts...)
			facts[199] = end(facts[199].Key, "j0b199")
			writeFacts(t, path, facts)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ledgerName)
			writeFacts(t, path, facts)
			_, r := fold(t, path, true)
			if err := r.writeIndex(); err != nil {
				t.Fatal(err)
			}
			tt.change(t, path)
			want, _ := fold(t, path, false)
			got, rd := fold(t, path, true)
			same(t, got, want)
			if used := rd.from > 0; used != tt.used {
				t.Errorf("used %v, want %v", used, tt.used)
			}
		})
	}
}

// FuzzIndex: whatever a file contains, it is either refused or answers every query.
func FuzzIndex(f *testing.F) {
	h := state.NewHistory()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 100 {
		h.Apply(0, someFact(r, i))
	}
	var whole bytes.Buffer
	x := &index{header: header{Offset: 1, Seq: 100}, aside: aside{Run: state.Fact{Kind: state.KindRun}}, base: &packed{}}
	x.base.put(h.Settle(0))
	if err := x.writeTo(&whole); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes(), true)
	f.Add(whole.Bytes(), false)
	f.Fuzz(func(t *testing.T, text []byte, sum bool) {
		if sum && len(text) >= 4 { // past the checksum
			body := text[:len(text)-4]
			text = binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, castagnoli))
		}
		x, err := readIndex(bytes.NewReader(text), int64(len(text)), 0)
		if err != nil {
			return
		}
		for r := range x.base.All() {
			_ = x.base.Find(r.Key)
			_ = x.base.Plain([16]byte([]byte((r.Key + indexMagic)[:16])))
		}
		_ = x.base.Find("none")
		if err := x.writeTo(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
