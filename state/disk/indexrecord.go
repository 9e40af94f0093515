package disk

import (
	"encoding/binary"
	"math"
	"time"

	"gpurun/state"
)

// appendRecord encodes a record without its key: strings and lists prefixed with their
// length, numbers as varints, fields in the order in which decoder.record reads them.
func appendRecord(b []byte, r *state.Record) []byte {
	flags := byte(0)
	if r.Forgotten {
		flags |= 1
	}
	if r.ExitCode != nil {
		flags |= 2
	}
	if r.Sim {
		flags |= 4
	}
	b = append(b, flags)
	if r.ExitCode != nil {
		b = binary.AppendVarint(b, int64(*r.ExitCode))
	}
	for _, s := range []string{string(r.State), r.Job, r.UniID, r.Signal, r.ErrorType, r.Reason, r.Line, r.Needs, r.Log, r.By} {
		b = appendText(b, s)
	}
	for _, n := range []int64{int64(r.Attempt), r.StartSeq, r.EndSeq, r.Peak, int64(r.GPUs)} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.Seconds))
	b = appendTime(appendTime(b, r.Start), r.End)
	b = appendCount(b, len(r.Commands), r.Commands == nil)
	for _, c := range r.Commands {
		b = appendText(b, c)
	}
	b = appendCount(b, len(r.Inputs), r.Inputs == nil)
	for _, in := range r.Inputs {
		b = appendText(appendText(b, in.Path), in.Hash)
		b = appendTime(binary.AppendVarint(b, in.Size), in.MTime)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendCount encodes the length of a list plus one; nil is 0.
func appendCount(b []byte, n int, none bool) []byte {
	if none {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(n)+1)
}

// appendTime encodes a UTC time as two numbers, any other as package time does.
func appendTime(b []byte, t time.Time) []byte {
	if t.Location() == time.UTC {
		return binary.AppendUvarint(binary.AppendVarint(append(b, 1), t.Unix()), uint64(t.Nanosecond()))
	}
	text, err := t.MarshalBinary()
	if err != nil {
		text = nil
	}
	return append(append(b, 2), appendText(nil, string(text))...)
}

// A decoder reads what appendRecord wrote; bad is set once something is invalid. The
// strings it returns are slices of the index.
type decoder struct {
	rest string
	bad  bool
}

func (d *decoder) record(key string, ledger int) *state.Record {
	r := &state.Record{Key: key, Ledger: int32(ledger)}
	flags := d.byte()
	r.Forgotten, r.Sim = flags&1 != 0, flags&4 != 0
	if flags&2 != 0 {
		code := int(d.varint())
		r.ExitCode = &code
	}
	r.State = state.Phase(d.text())
	for _, s := range [...]*string{&r.Job, &r.UniID, &r.Signal, &r.ErrorType, &r.Reason, &r.Line, &r.Needs, &r.Log, &r.By} {
		*s = d.text()
	}
	r.Attempt = int(d.varint())
	r.StartSeq, r.EndSeq, r.Peak = d.varint(), d.varint(), d.varint()
	r.GPUs = int(d.varint())
	r.Seconds = d.float()
	r.Start, r.End = d.time(), d.time()
	if n, ok := d.count(); ok {
		r.Commands = make([]string, 0, n)
		for range n {
			r.Commands = append(r.Commands, d.text())
		}
	}
	if n, ok := d.count(); ok {
		r.Inputs = make([]state.Input, 0, n)
		for range n {
			in := state.Input{Path: d.text(), Hash: d.text()}
			in.Size, in.MTime = d.varint(), d.time()
			r.Inputs = append(r.Inputs, in)
		}
	}
	if d.bad || len(d.rest) > 0 {
		return nil
	}
	return r
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		c := d.byte()
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) float() float64 {
	if len(d.rest) < 8 {
		d.bad = true
		return 0
	}
	var bits uint64
	for i := range 8 {
		bits |= uint64(d.rest[i]) << (8 * i)
	}
	d.rest = d.rest[8:]
	return math.Float64frombits(bits)
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, ""
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

// count reads the length of a list; false for nil. It never exceeds the remaining bytes.
func (d *decoder) count() (int, bool) {
	n := d.uvarint()
	if n == 0 || n-1 > uint64(len(d.rest)) {
		d.bad = d.bad || n > 0
		return 0, false
	}
	return int(n - 1), true
}

func (d *decoder) time() time.Time {
	switch d.byte() {
	case 1:
		sec := d.varint()
		return time.Unix(sec, int64(d.uvarint())).UTC()
	case 2:
		var t time.Time
		if t.UnmarshalBinary([]byte(d.text())) != nil {
			d.bad = true
		}
		return t
	}
	d.bad = true
	return time.Time{}
}
