package wire

import (
	"encoding/json"
	"slices"

	"gpurun/runner/engine"
	"gpurun/state/host"
)

// legible returns a launch that survives JSON; exact undoes it.
func legible(l *engine.Launch) *engine.Launch { return translated(l, host.Legible) }
func exact(l *engine.Launch) *engine.Launch   { return translated(l, host.Exact) }

func translated(l *engine.Launch, f func(string) string) *engine.Launch {
	c := *l
	for _, s := range []*string{&c.Job, &c.Dir, &c.WorkDir, &c.Stdout, &c.Stderr, &c.Header, &c.Config, &c.ConfigLock, &c.UniFile, &c.Slot.Journal} {
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
