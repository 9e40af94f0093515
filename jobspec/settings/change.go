package settings

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/source"
)

// Live are the settings that may change while a run goes on, atStart those that it reads once.
// The others say how jobs are read from their files.
var Live = []string{
	"max_concurrent", "poll", "max_wait", "gpu_ids", "reserve", "min_gpus", "max_gpus", "hours", "others", "pick", "order", "patience", "fail_fast", "breaker",
}

var atStart = []string{"notify", "engine", "cluster"}

// Change returns the settings with other values, spelled as flags spell them, or what is
// wrong with these.
func (s Settings) Change(values map[string]string) (Settings, error) {
	var out source.Report
	flags := map[string]string{}
	for name, text := range values {
		switch {
		case !slices.Contains(Names(), name):
			return s, fmt.Errorf("unknown setting %q; %s", name, source.DidYouMean(name, Live, "these can be set: "+strings.Join(Live, ", ")))
		case slices.Contains(atStart, name):
			return s, fmt.Errorf("%s cannot change during a run: write it in the job file, for the next run; these can be set: %s",
				name, strings.Join(Live, ", "))
		case !slices.Contains(Live, name):
			return s, fmt.Errorf("%s cannot change during a run, because it affects how job files are read: write it in the job file, then gpurun reload; these can be set: %s",
				name, strings.Join(Live, ", "))
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

// Shown returns the value of a setting as people see it.
func (s *Settings) Shown(name string) string { return shown(name, def(name).Show(s)) }
