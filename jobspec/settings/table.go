package settings

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
)

// A Def defines one setting: how to parse and format it, and the unit of a bare number on the
// command line.
type Def struct {
	Name string
	bare string // unit of a bare number in a flag: "MiB", "s" or ""
	set  func(s *Settings, text string) error
	Show func(s *Settings) string

	Values []string // the only valid values; nil if there is no such list
	live   bool     // it may change during a run
	once   bool     // read only when a run starts; if neither live nor once is set, it affects how job files are read
	idle   bool     // it has no effect on a cluster
	fix    string   // what to do instead on a cluster that does not support it
}

func (d Def) changes() Def        { d.live = true; return d }
func (d Def) atStart() Def        { d.once = true; return d }
func (d Def) onGPUs() Def         { d.idle = true; return d }
func (d Def) lost(fix string) Def { d.fix = fix; return d }

// These are the alternatives to settings that clusters do not support.
const (
	TheyChoose = "remove it: the cluster chooses the GPUs"
	WholeGPUs  = "remove it: the cluster assigns whole GPUs"
)

// OnCluster returns what to do instead if clusters do not support a setting ("" if they do), and
// whether they ignore the setting.
func (s Setting) OnCluster() (fix string, idle bool) { d := def(s.Name); return d.fix, d.idle }

// null is the text of a flag, or of a change during a run, that restores the default.
const null = "null"

func of[T any](name, bare string, at func(*Settings) *T, parse func(string) (T, error), show func(T) string) Def {
	set := func(s *Settings, text string) (err error) {
		if text == null {
			d := Defaults()
			*at(s) = *at(&d)
			return nil
		}
		*at(s), err = parse(text)
		return err
	}
	return Def{Name: name, bare: bare, set: set, Show: func(s *Settings) string { return show(*at(s)) }}
}

func count(name string, at func(*Settings) *int) Def {
	return of(name, "", at, func(t string) (int, error) { return source.ParseCount(t, 0) }, strconv.Itoa)
}

func duration(name string, at func(*Settings) *time.Duration) Def {
	return of(name, "s", at, source.ParseDuration, source.FormatDuration)
}

func onOff(name string, at func(*Settings) *bool) Def {
	return of(name, "", at, source.ParseBool, strconv.FormatBool)
}

func word[T ~string](name string, at func(*Settings) *T, valid ...T) Def {
	d := of(name, "", at, source.OneOf(valid...), func(w T) string { return string(w) })
	for _, w := range valid {
		d.Values = append(d.Values, string(w))
	}
	return d
}

func list(name string, at func(*Settings) *[]string, parse func(string) ([]string, error)) Def {
	return of(name, "", at, parse, func(items []string) string { return strings.Join(items, ",") })
}

// Table has all settings in the order of the reference.
var Table = []Def{
	count("max_concurrent", func(s *Settings) *int { return &s.MaxConcurrent }).changes(),
	of("min_memory", "MiB", func(s *Settings) *gpu.Bytes { return &s.MinMemory }, source.ParseSize, source.FormatSize),
	of("max_util", "", func(s *Settings) *int { return &s.MaxUtil }, source.ParsePercent, strconv.Itoa).onGPUs(),
	of("poll", "s", func(s *Settings) *time.Duration { return &s.Poll }, parsePoll, source.FormatDuration).changes(),
	duration("max_wait", func(s *Settings) *time.Duration { return &s.MaxWait }).changes(),
	{Name: "work_dir", set: func(*Settings, string) error { return nil }, Show: func(*Settings) string { return "" }}, // each file has its own
	list("gpu_ids", func(s *Settings) *[]string { return &s.GPUIDs }, source.ParseGPUIDs).changes().lost(TheyChoose),
	count("reserve", func(s *Settings) *int { return &s.Reserve }).changes().lost(TheyChoose),
	count("min_gpus", func(s *Settings) *int { return &s.MinGPUs }).changes().lost(TheyChoose),
	count("max_gpus", func(s *Settings) *int { return &s.MaxGPUs }).changes(),
	of("hours", "", func(s *Settings) *gpu.Hours { return &s.Hours }, source.ParseHours, gpu.Hours.String).changes().lost("remove it; use the cluster's reservations instead"),
	onOff("background", func(s *Settings) *bool { return &s.Background }).lost("remove it; use a low-priority partition instead: cluster: {partition: NAME}"),
	onOff("share", func(s *Settings) *bool { return &s.Share }).onGPUs(),
	count("slots", func(s *Settings) *int { return &s.Slots }).lost(WholeGPUs),
	word("others", func(s *Settings) *gpu.Others { return &s.Others }, gpu.OthersAllow, gpu.OthersAvoid).changes().onGPUs(),
	word("pick", func(s *Settings) *gpu.Pick { return &s.Pick }, gpu.MostFree, gpu.LeastUtil, gpu.FirstFit, gpu.BestFit, gpu.RoundRobin).changes().onGPUs(),
	word("order", func(s *Settings) *string { return &s.Order }, "file", "shuffle", "largest-first", LongestFirst).changes(),
	of("shuffle_seed", "", func(s *Settings) *int64 { return &s.ShuffleSeed }, parseSeed, func(n int64) string { return strconv.FormatInt(n, 10) }),
	duration("patience", func(s *Settings) *time.Duration { return &s.Patience }).changes(),
	duration("grace", func(s *Settings) *time.Duration { return &s.Grace }),
	onOff("fail_fast", func(s *Settings) *bool { return &s.FailFast }).changes(),
	of("program", "", func(s *Settings) *string { return &s.Program }, parseProgram, strings.Clone),
	word("seed_as", func(s *Settings) *string { return &s.SeedAs }, "config", "argument"),
	count("breaker", func(s *Settings) *int { return &s.Breaker }).changes(),
	onOff("learn", func(s *Settings) *bool { return &s.Learn }),
	onOff("snapshot", func(s *Settings) *bool { return &s.Snapshot }),
	of("pools", "", func(s *Settings) *[]Pool { return &s.Pools }, parsePools, formatPools),
	word("engine", func(s *Settings) *string { return &s.Engine }, Engines...).atStart(),
	of("cluster", "", func(s *Settings) *map[string]string { return &s.Cluster }, parseCluster, formatCluster).atStart(),
	of("notify", "", func(s *Settings) *[]Notify { return &s.Notify }, parseNotify, func(all []Notify) string { return strings.Join(Labels(all), ", ") }).atStart(),
	list("allow", func(s *Settings) *[]string { return &s.Allow }, func(t string) ([]string, error) { return lint.ParseAllow(strings.Split(t, ",")) }),
}

func parsePoll(text string) (time.Duration, error) {
	d, err := source.ParseDuration(text)
	if err == nil && d < 10*time.Millisecond {
		return 0, source.Faultf("try 5s", "%q would poll the GPUs constantly", text)
	}
	return d, err
}

func parseSeed(text string) (int64, error) {
	return source.ParseInteger(text, math.MaxInt64, "")
}

// parsePools parses disk=4,net=2.
func parsePools(text string) (pools []Pool, err error) {
	for _, part := range strings.Split(text, ",") {
		name, size, ok := strings.Cut(strings.TrimSpace(part), "=")
		p := Pool{Name: name}
		switch p.Size, err = source.ParseCount(size, 1); {
		case !ok || !PoolName.MatchString(name):
			return nil, source.Faultf("write {disk: 4}, or --pools disk=4", "%q is not NAME=NUMBER", part)
		case err != nil:
			return nil, source.Faultf("", "%s: %s", name, err)
		case slices.ContainsFunc(pools, func(q Pool) bool { return q.Name == name }):
			return nil, source.Faultf("keep only one", "%s is set twice", name)
		}
		pools = append(pools, p)
	}
	return pools, nil
}

// PoolName matches the names that pools may have.
var PoolName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func formatPools(pools []Pool) string {
	parts := make([]string, len(pools))
	for i, p := range pools {
		parts[i] = p.Name + "=" + strconv.Itoa(p.Size)
	}
	return strings.Join(parts, ",")
}

func parseProgram(text string) (string, error) {
	program := strings.TrimSpace(text)
	if program == "" {
		return "", source.Faultf("try python test.py", "%q contains no command", text)
	}
	return program, nil
}

// Names returns the names of all settings.
func Names() []string { return named(func(Def) bool { return true }) }

func named(which func(Def) bool) (names []string) {
	for _, d := range Table {
		if which(d) {
			names = append(names, d.Name)
		}
	}
	return names
}

func def(name string) Def {
	return Table[slices.IndexFunc(Table, func(d Def) bool { return d.Name == name })]
}

// shown returns a value for display, with special values in words.
func shown(name, value string) string {
	switch {
	case name == "max_concurrent" && value == "0":
		return "limited only by the GPUs"
	case name == "breaker" && value == "0":
		return "never"
	case (name == "max_wait" || name == "slots") && value == "0":
		return "no limit"
	case value == "-1", name == "gpu_ids" && value == "":
		return "not set"
	case (name == "allow" || name == "pools" || name == "cluster" || name == "notify") && value == "":
		return "none"
	case name == "hours" && value == "":
		return "always"
	}
	return value
}
