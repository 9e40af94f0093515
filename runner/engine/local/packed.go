package local

import (
	"encoding/binary"
	"errors"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
)

// Between a runner and the keeper that it has started both are the same program.
// There the three messages of every attempt, launch, running and ended, go without
// names and without JSON: their fields one behind the other, in the order of the
// functions below. For attempts that last a millisecond JSON was a twenty-fifth of
// all that was done.

// packedFrame marks the length of such a text in a frame.
const packedFrame = 1 << 31

// packable reports whether a message is one of the three.
func packable(m *message) bool {
	switch m.Op {
	case opLaunch:
		return m.Launch != nil
	case opRunning:
		return m.Running != nil
	case opEnded:
		return m.Ended != nil
	}
	return false
}

var errPacked = errors.New("a packed message is broken")

// A packer writes fields, or reads them where in is set: one function for each
// struct does both, so that the two cannot differ.
type packer struct {
	in   bool
	out  []byte
	text string // what is still to be read; strings are parts of it
	bad  bool
}

// pack appends the text of a message.
func pack(b []byte, m *message) []byte {
	p := packer{out: b}
	p.message(m)
	return p.out
}

// unpack reads the text of a message.
func unpack(text string, m *message) error {
	p := packer{in: true, text: text}
	if p.message(m); p.bad || p.text != "" {
		return errPacked
	}
	return nil
}

func (p *packer) message(m *message) {
	p.string(&m.Op)
	p.string(&m.UniID)
	switch m.Op {
	case opLaunch:
		fresh(p, &m.Launch)
		p.launch(m.Launch)
	case opRunning:
		fresh(p, &m.Running)
		p.running(m.Running)
	case opEnded:
		fresh(p, &m.Ended)
		p.ended(m.Ended)
	default:
		p.bad = true
	}
}

func (p *packer) launch(l *engine.Launch) {
	p.string(&l.UniID)
	p.string(&l.Job)
	p.string(&l.Key)
	p.string(&l.Needs)
	whole(p, &l.Attempt)
	p.string(&l.Dir)
	list(p, &l.Shell, p.string)
	list(p, &l.Commands, p.string)
	list(p, &l.Env, p.string)
	p.string(&l.WorkDir)
	p.string(&l.Stdout)
	p.string(&l.Stderr)
	p.string(&l.Header)
	whole(p, &l.Timeout)
	whole(p, &l.Grace)
	p.bool(&l.Tree)
	p.string(&l.Config)
	p.string(&l.ConfigSum)
	p.string(&l.UniFile)
	p.string(&l.Leftovers)
	list(p, &l.Grant.UUIDs, func(u *gpu.UUID) { p.string((*string)(u)) })
	list(p, &l.Grant.Indices, func(i *int) { whole(p, i) })
	whole(p, &l.Grant.Memory)
	p.bool(&l.Grant.Share)
}

func (p *packer) running(r *engine.Running) {
	whole(p, &r.PID)
	whole(p, &r.PIDStart)
	p.bool(&r.Adopted)
	p.time(&r.Started)
}

func (p *packer) ended(e *engine.Ended) {
	whole(p, &e.ExitCode)
	p.string(&e.Signal)
	p.string(&e.Why)
	p.time(&e.Started)
	p.time(&e.At)
	whole(p, &e.Elapsed)
	p.bool(&e.OOMKilled)
	p.bool(&e.Lost)
	p.bool(&e.Void)
	p.string(&e.Err)
	p.bool(&e.NoRoom)
	p.string(&e.Report)
	whole(p, &e.LeftOver)
	list(p, &e.Stuck, func(pid *int) { whole(p, pid) })
	p.string(&e.LeftRunning)
	p.string(&e.Unsaved)
}

// fresh makes what is about to be read.
func fresh[T any](p *packer, v **T) {
	if p.in {
		*v = new(T)
	}
}

// whole packs a whole number; the largest of uint64 become negative on the way, and
// are themselves again at the end of it.
func whole[T ~int | ~int64 | ~uint64](p *packer, v *T) {
	if !p.in {
		p.out = binary.AppendVarint(p.out, int64(*v))
		return
	}
	var zigzag uint64
	for shift := 0; shift < 64; shift += 7 {
		if p.text == "" {
			break
		}
		c := p.text[0]
		p.text = p.text[1:]
		zigzag |= uint64(c&0x7f) << shift
		if c < 0x80 {
			*v = T(int64(zigzag>>1) ^ -int64(zigzag&1))
			return
		}
	}
	p.bad = true
}

func (p *packer) string(s *string) {
	n := len(*s)
	whole(p, &n)
	switch {
	case !p.in:
		p.out = append(p.out, *s...)
	case p.bad || n < 0 || n > len(p.text):
		p.bad = true
	default:
		*s, p.text = p.text[:n], p.text[n:]
	}
}

func (p *packer) bool(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	whole(p, &n)
	if p.in {
		*v = n == 1
	}
}

// time packs a moment without its place on the earth.
func (p *packer) time(t *time.Time) {
	s, ns := t.Unix(), t.Nanosecond()
	whole(p, &s)
	whole(p, &ns)
	if p.in {
		*t = time.Unix(s, int64(ns))
	}
}

// list packs each of a list; none is nil at the other side.
func list[T any](p *packer, v *[]T, each func(*T)) {
	n := len(*v)
	whole(p, &n)
	if p.in {
		if *v = nil; p.bad || n < 0 || n > len(p.text) { // one byte for each, at the least
			p.bad = true
			return
		}
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		each(&(*v)[i])
	}
}
