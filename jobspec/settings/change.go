package settings

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/source"
)

// Live returns the settings that may change during a run.
func Live() []string { return named(func(d Def) bool { return d.live }) }

// Change returns the settings with new values, which are written as in flags. It returns an error
// for an invalid value, or for a setting that cannot change during a run.
func (s Settings) Change(values map[string]string) (Settings, error) {
	var out source.Report
	flags := map[string]string{}
	for name, text := range values {
		can := "you can set: " + strings.Join(Live(), ", ")
		switch {
		case !slices.Contains(Names(), name):
			return s, fmt.Errorf("unknown setting %q; %s", name, source.DidYouMean(name, Live(), can))
		case def(name).once:
			return s, fmt.Errorf("cannot change %s during a run: set it in the job file for the next run; %s", name, can)
		case !def(name).live:
			return s, fmt.Errorf("cannot change %s during a run, because it affects how job files are read: set it in the job file, then run gpurun reload; %s", name, can)
		}
		flags[strings.ReplaceAll(name, "_", "-")] = text
	}
	for _, g := range FromFlags(flags, &out) {
		if err := def(g.Name).set(&s, g.Text); err != nil {
			return s, fmt.Errorf("%s: %s", g.Name, source.Problem{}.Because(err))
		}
	}
	if s.MinGPUs >= 0 && s.MaxGPUs >= 0 && s.MinGPUs > s.MaxGPUs {
		return s, fmt.Errorf("min_gpus %d is more than max_gpus %d", s.MinGPUs, s.MaxGPUs)
	}
	return s, nil
}

// Shown formats the value of a setting for display.
func (s *Settings) Shown(name string) string { return shown(name, def(name).Show(s)) }
