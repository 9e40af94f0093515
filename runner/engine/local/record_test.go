package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurun/state/jsonline/jsonlinetest"
)

func TestRecord(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	full := record{
		State: recordEnded, UniID: "u", Steps: 2, PID: 4, Start: 5, Why: "timeout", Exit: -1, Signal: "SIGKILL",
		Started: now, Ended: now.Add(time.Hour), Elapsed: time.Hour, OOM: true, Report: "normal_exit", LeftOver: 3,
		Stuck: []int{7}, Timeout: time.Hour, Grace: time.Second, Boot: 9,
	}
	dir := t.TempDir()
	f, err := createRecord(dir, &record{State: recordOpen, UniID: "u", Started: now})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if _, err := createRecord(dir, &full); err == nil {
		t.Error("a record was created over another")
	}
	if err := f.put(&full); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(dir, "u")
	if err != nil || !reflect.DeepEqual(*got, full) {
		t.Errorf("got %+v, %v, want %+v", got, err, full)
	}
	if fi, _ := os.Stat(filepath.Join(dir, statusFile)); fi.Size() != statusSize {
		t.Errorf("size = %d", fi.Size())
	}
}

// A record is encoded as encoding/json would, with every field set and with none.
func TestRecordIsJSON(t *testing.T) {
	var full record
	jsonlinetest.Fill(&full)
	for _, r := range []*record{{}, &full} {
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.appendTo(nil); err != nil || string(got) != string(want) {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}

// A record never grows, whatever it contains.
func TestRecordIsOfOneLength(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 3000, 3500, 4000, 5000, 100000} {
		r := record{UniID: "u", Err: strings.Repeat("\x01é", n), Stuck: make([]int, n)}
		if got := len(r.encode()); got != statusSize {
			t.Errorf("with %d: %d bytes", n, got)
		}
	}
}

// Truncated anywhere, or with any byte changed, it is not a record, and never an end that
// was not written.
func TestRecordTorn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, statusFile)
	whole := (&record{State: recordEnded, UniID: "u", Exit: 0}).encode()
	text := strings.TrimRight(string(whole), " \n")
	for i := range text {
		flipped := []byte(text)
		flipped[i] ^= 4
		for _, b := range [][]byte{[]byte(text[:i]), flipped} {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if r, err := readRecord(dir, "u"); !errors.Is(err, errNoRecord) {
				t.Fatalf("at byte %d: %+v, %v", i, r, err)
			}
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add((&record{State: recordEnded}).encode())
	f.Add([]byte("00000000 "))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, statusFile), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := readRecord(dir, "u"); (r == nil) == (err == nil) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// An unreadable record is never overwritten.
func TestRecordOverGarbage(t *testing.T) {
	for _, text := range []string{"", "x", strings.Repeat("x", statusSize)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, statusFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := createRecord(dir, &record{UniID: "u"}); err == nil {
			t.Errorf("a record was created over %.20q", text)
		}
	}
}
