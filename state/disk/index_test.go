package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// someFact returns a random fact with one of a few keys.
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
		f.GPUs, f.Memory, f.SeedGroup = []int{1, 2}, gpu.Bytes(1+r.IntN(9)), []string{"", "a", "b"}[r.IntN(3)]
		if r.IntN(2) == 0 {
			f.Inputs = []state.Input{{Path: "/in", Size: 1 << 40, MTime: at, Hash: "cd"}, {Path: "/other"}}
		}
	case 2:
		f.Kind, f.PID, f.PIDStart = state.KindRunning, 7, 8
	case 3, 4:
		code := r.IntN(3) - 1
		f.Kind, f.State, f.ExitCode = state.KindEnd, []state.Phase{state.Succeeded, state.Failed, state.OOM, "later"}[r.IntN(4)], &code
		f.Seconds, f.Reason, f.PeakMemory, f.PeakReadings, f.Signal = r.Float64()*1e5, "why", gpu.Bytes(r.IntN(9)), r.IntN(9), "SIGKILL"
		if f.State == state.OOM {
			f.ErrorType = state.ErrOOM
		}
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

// fold reads a ledger, with its index if the index is valid.
func fold(t *testing.T, path string) (*state.History, *reader) {
	t.Helper()
	h, r := state.NewHistory(), newReader(path)
	if err := r.load(h, 0, nil, false); err != nil {
		t.Fatal(err)
	}
	return h, r
}

// plainly applies every readable line of a ledger to a history, one by one.
func plainly(t *testing.T, path string) *state.History {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, at := state.NewHistory(), int64(0)
	for line := range bytes.Lines(b) {
		var f state.Fact
		if decode(bytes.TrimSuffix(line, []byte("\n")), &f) == nil {
			h.ApplyAt(0, 1+at, f)
		}
		at += int64(len(line))
	}
	return h
}

// writeIndexOf writes the index of a ledger of any size.
func writeIndexOf(t *testing.T, path string) {
	t.Helper()
	r := newReader(path)
	f, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, p := state.NewHistory(), newPast(f, 0, 1)
	h.SetBase(0, p, 0)
	if err := r.read(f, func(f *state.Fact, at int64) { h.ApplyAt(0, 1+at, *f); h.Settle(0, p.put) }); err != nil {
		t.Fatal(err)
	}
	if err := writeIndex(path, f, r.covered, p.entries, h.SeedGroups(0)); err != nil {
		t.Fatal(err)
	}
}

// same checks that two histories give the same answer to every query.
func same(t *testing.T, got, want *state.History) {
	t.Helper()
	if !reflect.DeepEqual(got.Open, want.Open) || got.Empty() != want.Empty() {
		t.Fatalf("open attempts %v, want %v; empty %v, want %v", got.Open, want.Open, got.Empty(), want.Empty())
	}
	all := func(h *state.History) map[string]state.Record {
		m := map[string]state.Record{}
		for r := range h.Records() {
			if _, twice := m[r.Key]; twice {
				t.Fatalf("Records returns key %s twice", r.Key)
			}
			m[r.Key] = *r
		}
		return m
	}
	if a, b := all(got), all(want); !reflect.DeepEqual(a, b) {
		t.Fatalf("records\n%+v\nwant\n%+v", a, b)
	}
	if a, b := got.SeedGroups(0), want.SeedGroups(0); !reflect.DeepEqual(a, b) {
		t.Fatalf("groups\n%+v\nwant\n%+v", a, b)
	}
	for i := range 16 {
		key, name := fmt.Sprintf("%032x", i), fmt.Sprint("job", i)
		if a, b := got.Of(0, key), want.Of(0, key); !reflect.DeepEqual(a, b) {
			t.Fatalf("key %s: %+v, want %+v", key, a, b)
		}
		if a, b := got.Named(0, name), want.Named(0, name); !reflect.DeepEqual(a, b) {
			t.Fatalf("name %s: %+v, want %+v", name, a, b)
		}
		if r, plain := want.Of(0, key), got.Plain(0, [16]byte{15: byte(i)}); plain != 0 && plain != r.Plain() {
			t.Fatalf("key %s: Plain is %d, want %d or 0", key, plain, r.Plain())
		}
	}
}

// An index must contain the last run and how it ended.
func TestIndexKeepsLastExitStatus(t *testing.T) {
	for _, code := range []int{0, 1} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		at := time.Unix(1_700_000_000, 0).UTC()
		writeFacts(t, path, []state.Fact{{Kind: state.KindRun, Time: at}, {Kind: state.KindOver, Time: at.Add(1), ExitCode: &code, Why: "all done"}})
		_, want := fold(t, path)
		writeIndexOf(t, path)
		if c, _, _ := readIndexOf(t, path); !reflect.DeepEqual(c, want.covered) {
			t.Errorf("index has %+v, ledger %+v", c, want.covered)
		}
	}
}

// readIndexOf reads the index of a ledger.
func readIndexOf(t *testing.T, path string) (covered, []entry, []state.SeedGroup) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return readIndex(path, f)
}

// writeFacts creates a ledger of facts, with a broken line before every 29th.
func writeFacts(t *testing.T, path string, facts []state.Fact) {
	t.Helper()
	var text bytes.Buffer
	for i, f := range facts {
		if i%29 == 28 {
			text.WriteString("{broken\n")
		}
		b, err := encode(&f)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(b, '\n'))
	}
	if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Wherever an index ends, the index plus the lines after it must give the same history as all
// lines, whether the index was built from lines or from another index.
func TestIndexPlusTailEqualsLedger(t *testing.T) {
	for seed := range uint64(75) {
		r := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), ledgerName)
		facts := make([]state.Fact, r.IntN(120))
		for i := range facts {
			facts[i] = someFact(r, i)
		}
		for cut := 0; cut < len(facts); cut += 1 + r.IntN(60) {
			writeFacts(t, path, facts[:cut])
			if h, _ := fold(t, path); len(h.Open) > 0 {
				continue // no run would write an index here
			}
			writeIndexOf(t, path)
		}
		writeFacts(t, path, facts)
		want := plainly(t, path)
		got, tail := fold(t, path)
		same(t, got, want)
		os.Remove(indexPath(path))
		got2, whole := fold(t, path)
		same(t, got2, want)
		if !reflect.DeepEqual(tail.covered, whole.covered) {
			t.Fatalf("with an index, got %+v, want %+v", tail.covered, whole.covered)
		}
		for r := range got.Records() {
			if f, ok := got.StartOf(r); ok != (r.StartSeq > 0) || !f.Time.Equal(r.Start) {
				t.Fatalf("StartOf(%+v) = %+v, %v", r, f, ok)
			}
		}
		for i := range 20 { // facts of a run that continues
			f := someFact(r, 1000+i)
			got.ApplyAt(0, int64(1e6+i), f)
			want.ApplyAt(0, int64(1e6+i), f)
		}
		same(t, got, want)
	}
}

// rewriteIndex changes the index of a ledger and gives it a valid checksum.
func rewriteIndex(t *testing.T, path string, change func(*index) any) {
	t.Helper()
	b, err := os.ReadFile(indexPath(path))
	var x index
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(b[4:])).Decode(&x)
	}
	out := bytes.NewBuffer(make([]byte, 4))
	if err == nil {
		err = gob.NewEncoder(out).Encode(change(&x))
	}
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(out.Bytes(), crc32.Checksum(out.Bytes()[4:], castagnoli()))
	if err := os.WriteFile(indexPath(path), out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// An index that does not match its ledger is ignored.
func TestStaleIndexIsIgnored(t *testing.T) {
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
		{"unchanged", func(*testing.T, string) {}, true},
		{"deleted", func(t *testing.T, path string) { os.Remove(indexPath(path)) }, false},
		{"empty", func(t *testing.T, path string) { os.Truncate(indexPath(path), 0) }, false},
		{"truncated", func(t *testing.T, path string) { os.Truncate(indexPath(path), 3000) }, false},
		{"replaced by a folder", func(t *testing.T, path string) { os.Remove(indexPath(path)); os.Mkdir(indexPath(path), 0o777) }, false},
		{"ledger shortened", func(t *testing.T, path string) { writeFacts(t, path, facts[:150]) }, false},
		{"first line of the ledger changed", func(t *testing.T, path string) {
			facts := append([]state.Fact(nil), facts...)
			facts[0] = end(facts[0].Key, "j0b0")
			writeFacts(t, path, facts)
		}, false},
		{"middle line of the ledger changed", func(t *testing.T, path string) {
			facts := append([]state.Fact(nil), facts...)
			facts[100] = end(facts[100].Key, "j0b100")
			writeFacts(t, path, facts)
		}, false},
		{"last line of the ledger changed", func(t *testing.T, path string) {
			facts := append([]state.Fact(nil), facts...)
			facts[199] = end(facts[199].Key, "j0b199")
			writeFacts(t, path, facts)
		}, false},
		{"another format", func(t *testing.T, path string) {
			rewriteIndex(t, path, func(x *index) any { x.Format++; return x })
		}, false},
		{"the first format", func(t *testing.T, path string) {
			rewriteIndex(t, path, func(x *index) any {
				var c covered
				if err := json.Unmarshal(x.CoveredJSON, &c); err != nil {
					t.Fatal(err)
				}
				return &struct {
					Covered      covered
					Sum          uint32
					IDs          []byte
					Starts, Ends []int64
					Forgotten    []bool
					Plains       []state.Plain
				}{c, x.Sum, x.IDs, x.Starts, x.Ends, x.Forgotten, x.Plains}
			})
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ledgerName)
			writeFacts(t, path, facts)
			writeIndexOf(t, path)
			tt.change(t, path)
			want := plainly(t, path)
			got, rd := fold(t, path)
			same(t, got, want)
			if used := rd.from > 0; used != tt.used {
				t.Errorf("index used: %v, want %v", used, tt.used)
			}
		})
	}
}

// FuzzIndex checks that no content of an index file causes a panic.
func FuzzIndex(f *testing.F) {
	ledger := filepath.Join(f.TempDir(), ledgerName)
	var text bytes.Buffer
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 100 {
		fact := someFact(r, i)
		b, err := encode(&fact)
		if err != nil {
			f.Fatal(err)
		}
		text.Write(append(b, '\n'))
	}
	if err := os.WriteFile(ledger, text.Bytes(), 0o666); err != nil {
		f.Fatal(err)
	}
	in, err := os.Open(ledger)
	if err != nil {
		f.Fatal(err)
	}
	defer in.Close()
	if err := writeIndex(ledger, in, covered{Offset: 1, Line: 1}, []entry{{keyID{1}, -1, 0, false, 1}, {keyID{2}, 5, 99, true, 0}}, nil); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(indexPath(ledger))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, true)
	f.Add(whole, false)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		if sum && len(b) >= 4 { // give it a valid checksum
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli()))
		}
		path := filepath.Join(t.TempDir(), ledgerName)
		if os.Link(ledger, path) != nil || os.WriteFile(indexPath(path), b, 0o666) != nil {
			t.Fatal("cannot write")
		}
		c, entries, groups := readIndex(path, in)
		p := newPast(in, 0, 1)
		p.entries = entries
		for r := range p.All() {
			_ = p.Find(r.Key)
		}
		_ = p.Find("none")
		if err := writeIndex(path, in, c, entries, groups); err != nil {
			t.Fatal(err)
		}
	})
}

// count returns the number of records in a history.
func count(h *state.History) (n int) {
	for range h.Records() {
		n++
	}
	return n
}

// If jobs started nearly in the order of the batch, find needs no map of them.
func TestFindNeedsNoMapForJobsInOrder(t *testing.T) {
	const jobs = 10_000
	id := func(i int) keyID { return keyID{14: byte(i >> 8), 15: byte(i)} }
	for _, far := range []int{1, 2, near, 3 * near, jobs} {
		p := &past{}
		for _, i := range shuffled(jobs, far) {
			p.entries = append(p.entries, entry{id: id(i), start: int64(i)})
		}
		for i := range jobs {
			if k, known := p.find(id(i)); !known || p.entries[k].start != int64(i) {
				t.Fatalf("shuffled in blocks of %d: job %d is found at %d, %v", far, i, k, known)
			}
		}
		if far <= near && p.at != nil {
			t.Errorf("shuffled in blocks of %d: a map was made", far)
		}
		if _, known := p.find(keyID{0: 1}); known {
			t.Error("found a job that is not there")
		}
	}
}

// shuffled returns the numbers below n, shuffled within blocks.
func shuffled(n, block int) (order []int) {
	r := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < n; from += block {
		for _, i := range r.Perm(min(block, n-from)) {
			order = append(order, from+i)
		}
	}
	return order
}
