package wire

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"gpurun/runner/engine"
)

// The kernel's strings are bytes, and JSON's are text: a path or a variable that is not
// UTF-8 travels as its bytes, one character for each, behind a NUL, which no string of
// the kernel contains.
const asBytes = "\x00"

// legible returns a launch that survives JSON; exact undoes it.
func legible(l *engine.Launch) *engine.Launch { return translated(l, toText) }
func exact(l *engine.Launch) *engine.Launch   { return translated(l, toBytes) }

func translated(l *engine.Launch, f func(string) string) *engine.Launch {
	c := *l
	for _, s := range []*string{&c.Job, &c.Dir, &c.WorkDir, &c.Stdout, &c.Stderr, &c.Header, &c.Config, &c.UniFile} {
		*s = f(*s)
	}
	for _, list := range []*[]string{&c.Shell, &c.Commands, &c.Env} {
		*list = slices.Clone(*list)
		for i, s := range *list {
			(*list)[i] = f(s)
		}
	}
	return &c
}

// Pack returns a launch as JSON; Unpack undoes it.
func Pack(l *engine.Launch) ([]byte, error) { return json.Marshal(legible(l)) }

// Unpack reads what Pack wrote.
func Unpack(b []byte) (*engine.Launch, error) {
	var l engine.Launch
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, err
	}
	return exact(&l), nil
}

func toText(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, asBytes) {
		return s
	}
	text := []rune(asBytes)
	for _, b := range []byte(s) {
		text = append(text, rune(b))
	}
	return string(text)
}

func toBytes(s string) string {
	text, ok := strings.CutPrefix(s, asBytes)
	if !ok {
		return s
	}
	var b []byte
	for _, r := range text {
		b = append(b, byte(r))
	}
	return string(b)
}
