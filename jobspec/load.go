package jobspec

import (
	"path/filepath"
	"slices"

	"gpurun/jobspec/block"
	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// Load reads the job files of one batch. If there are problems, it returns them all as an error
// from Report, and no batch.
func Load(paths []string, opts Options) (*Batch, error) {
	l := newLoader(opts)
	if opts.Format != "" {
		if _, err := source.ParseWord(opts.Format, Formats...); err != nil {
			return nil, Report([]Problem{Problem{File: "--format"}.Because(err)})
		}
	}
	for _, path := range paths {
		l.read(path)
	}
	l.settings()
	for _, f := range l.files {
		f.expandAll()
	}
	if whole := len(l.files) == len(paths); whole && !slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.partial }) {
		l.givens.ReportUnused(&l.out)
	}
	l.link()
	l.checkLogs()
	l.checkConfigs()
	l.lintBatch()
	source.Sort(l.out.Problems, paths)
	if len(l.out.Problems) > 0 {
		return nil, Report(l.out.Problems)
	}
	l.batch.Params = l.givens.Texts()
	l.sources()
	source.Sort(l.out.Warnings, paths)
	l.batch.Warnings = l.out.Warnings
	return l.batch, nil
}

// A loader is the state of one Load.
type loader struct {
	opts  Options
	out   source.Report
	batch *Batch
	files []*fileJobs
	lints *lint.Checker

	givens expand.Givens
}

func newLoader(opts Options) *loader {
	l := &loader{opts: opts, batch: &Batch{bases: map[string]*configedit.File{}, clashing: map[string]bool{}}}
	l.out.Reading = opts.Reading
	l.lints = lint.New(&l.out)
	l.givens = expand.ParseGivens(opts.Params, &l.out)
	return l
}

// UserSettings returns the settings in the user's defaults file, overridden by flags.
func UserSettings(path string, flags map[string]string) (Settings, error) {
	l := newLoader(Options{})
	s, _ := settings.Merge(settings.Defaults(), settings.FromFlags(flags, &l.out), nil, settings.FromUser(path, ourKeys(), jobKeys, &l.out), &l.out)
	return s, Report(l.out.Problems)
}

// fileJobs is the state of one file while its jobs are read.
type fileJobs struct {
	*loader
	src     *source.Source
	dialect *dialect
	style   *style     // for display: that of experiments if there are any
	root    *yaml.Node // YAML; nil if it cannot be parsed
	blocks  []block.Block
	config  block.Config
	lines   []commandLine
	names   map[string]string // names of lines, as in Lines.Names
	partial bool              // some of its jobs are invalid
	index   int               // in Batch.Files

	workDir  string // absolute
	dirKey   string // the work dir as written, for the key
	dirFrom  string // where the work dir was set
	settings *Settings
	given    map[string]settings.Given

	params []string       // parameters of all jobs
	among  []*expand.Text // prune.among in defaults

	called map[string]int32 // IDs of its jobs by name
	alike  map[Key]int32    // number of identical jobs by key
}

// read reads one file, except for what depends on the other files.
func (l *loader) read(path string) {
	src := l.source(path)
	if src == nil {
		return
	}
	for _, f := range l.files {
		if f.src.Real == src.Real {
			src.Problem(0, 0, "name it only once", "is the same file as %s", f.src.Path)
			return
		}
	}
	f := &fileJobs{loader: l, src: src, index: len(l.files), workDir: src.Dir, dirKey: ".", dirFrom: "default"}
	f.dialect = l.dialectOf(src)
	if l.opts.Format == "" && f.dialect != &lineList && (f.offerExec() || f.offerLines()) {
		return
	}
	f.dialect.read(f)
	l.files = append(l.files, f)
}

// settings merges flags, the files' settings and the user's defaults.
func (l *loader) settings() {
	flags := settings.FromFlags(l.opts.Flags, &l.out)
	byFile := make([][]settings.Given, len(l.files))
	for i, f := range l.files {
		byFile[i] = f.dialect.settings(f)
	}
	user := settings.FromUser(l.opts.UserConfig, ourKeys(), jobKeys, &l.out)
	base := settings.Defaults()
	if len(l.files) > 0 && !slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.dialect != &blocks }) {
		base.Order, base.MaxUtil = "shuffle", 100
	}
	var applies map[string]settings.Given
	l.batch.Settings, applies = settings.Merge(base, flags, byFile, user, &l.out)
	l.configUse()
	l.lints.Allow, l.lints.Remote = l.batch.Settings.Allow, l.batch.Settings.Engine != "local"
	l.lintConcurrent(applies["max_concurrent"])
	for i, f := range l.files {
		f.settings, f.given = &l.batch.Settings, applies
		f.placeWorkDir(flags, byFile[i], user)
	}
}

// configUse refuses --config without a block file that would use it. A missing config file is
// always an error.
func (l *loader) configUse() {
	if l.opts.Config == "" || len(l.files) == 0 || slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.dialect == &blocks }) {
		return
	}
	if _, err := source.ReadRegular(l.opts.Config); err != nil {
		l.out.Add(Problem{File: l.opts.Config, Text: err.Error()})
		return
	}
	l.out.Add(Problem{File: "--config", Text: "works only with block files, but " + l.files[0].src.Path + " is not a block file", Hint: "write the settings in the job file, or use flags"})
}

// placeWorkDir sets the file's work dir. A path from a flag is relative to the current folder; any
// other path is relative to the folder of the job file.
func (f *fileJobs) placeWorkDir(flags, file, user []settings.Given) {
	for i, list := range [][]settings.Given{flags, file, user} {
		at := slices.IndexFunc(list, func(g settings.Given) bool { return g.Name == "work_dir" })
		if at < 0 {
			continue
		}
		g, base := list[at], f.src.Dir
		if i == 0 {
			base, _ = filepath.Abs(".")
		}
		dir, err := expand.Absolute(base, g.Text)
		if err != nil {
			f.out.Add(Problem{File: g.File, Line: g.Line, Col: g.Col, Text: "work_dir: " + err.Error(), Hint: "write the full path"})
			return
		}
		f.workDir, f.dirKey, f.dirFrom = dir, filepath.Clean(g.Text), g.Source()
		return
	}
}

// expandAll creates the file's jobs.
func (f *fileJobs) expandAll() {
	b := f.batch
	first := len(b.Jobs)
	b.Files = append(b.Files, File{Path: f.src.Path, Real: f.src.Real, WorkDir: f.workDir, First: first, dir: f.dirKey})
	f.dialect.jobs(f)
	own := &b.Files[f.index]
	own.Dialect, own.Count = f.style.name, len(b.Jobs)-first
	f.root, f.blocks, f.lines, f.alike = nil, nil, nil, nil
}

// sources completes the output of plan -v once all files are read: each file's work dir, and
// defaults that depend on the dialect.
func (l *loader) sources() {
	experiments := slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.style == experiment })
	var all []settings.Setting
	for _, s := range l.batch.Settings.Sources {
		switch {
		case s.Name == "work_dir":
			for _, f := range l.files {
				all = append(all, settings.Setting{Name: s.Name, Value: f.dirKey, Source: f.dirFrom})
			}
			all = slices.Compact(all)
			continue
		case s.Name == "share" && s.Source == "default" && experiments:
			s.Value = "true for experiments, otherwise false"
		}
		all = append(all, s)
	}
	l.batch.Settings.Sources = all
}
