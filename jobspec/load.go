package jobspec

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
	"gpurun/jobspec/units"

	"gopkg.in/yaml.v3"
)

// Load reads the job files of one batch. If there is any problem it returns no batch, and
// all problems as Report does.
func Load(paths []string, opts Options) (*Batch, error) {
	l := newLoader(opts)
	if opts.Format != "" {
		if _, err := units.ParseWord(opts.Format, "yaml", "block"); err != nil {
			l.out.Add(Problem{File: "--format"}.Because(err))
			return nil, Report(l.out.Problems)
		}
	}
	for _, path := range paths {
		l.read(path)
	}
	l.settings()
	for _, f := range l.files {
		f.expandAll()
	}
	l.link()
	l.checkLogs()
	l.checkConfigs()
	l.lintBatch()
	source.Sort(l.out.Problems, paths)
	if len(l.out.Problems) > 0 {
		return nil, Report(l.out.Problems)
	}
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
}

func newLoader(opts Options) *loader {
	l := &loader{opts: opts, batch: &Batch{bases: map[string]*configedit.File{}}}
	l.lints = lint.New(&l.out)
	return l
}

// fileJobs is the state of one file while its jobs are read.
type fileJobs struct {
	*loader
	src      *source.Source
	root     *yaml.Node // YAML
	blocks   []block    // block dialect
	config   blockConfig
	isBlocks bool
	broken   bool // its settings are usable, its jobs are not
	partial  bool // some of its jobs could not be made
	dialect  string
	index    int // in Batch.Files

	workDir  string // absolute
	dirKey   string // the work dir as written, for the key
	dirFrom  string // where it was set
	settings *Settings
	given    map[string]given

	called map[string]int32 // IDs of its jobs by name
	alike  map[Key]int32    // how many of its jobs do the same
}

// read reads one file as far as possible without knowing the others.
func (l *loader) read(path string) {
	src := source.Read(path, &l.out)
	if src == nil {
		return
	}
	for _, f := range l.files {
		if f.src.Real == src.Real {
			src.Problem(0, 0, "name it only once", "is the same file as %s", f.src.Path)
			return
		}
	}
	f := &fileJobs{loader: l, src: src, index: len(l.files)}
	if f.isBlocks = f.detect(); f.isBlocks {
		f.readBlocks()
	} else {
		f.root = src.Parse(ourKeys())
		f.broken = f.root == nil || !src.Resolve(f.root) || !checkTop(src, f.root)
	}
	l.files = append(l.files, f)
}

var jobsAtTop = regexp.MustCompile(`(?m)^["']?jobs["']?[ \t]*:`)

// detect reports whether a file is of the block dialect.
func (f *fileJobs) detect() bool {
	switch f.opts.Format {
	case "yaml":
		return false
	case "block":
		return true
	}
	if jobsAtTop.Match(f.src.Data) || bytes.HasPrefix(bytes.TrimSpace(f.src.Data), []byte("{")) {
		return false
	}
	return strings.ToLower(filepath.Ext(f.src.Path)) == ".txt" || looksLikeBlocks(f.src.Data)
}

// settings merges flags, the files' settings and the user's own defaults.
func (l *loader) settings() {
	defs := settingDefs()
	r := &settingsReader{defs: defs, out: &l.out, given: map[string]given{}, ranks: map[string]string{}}
	flags := r.flags(l.opts.Flags)
	r.take(flags, "flag")
	byFile := make([][]given, len(l.files))
	for i, f := range l.files {
		byFile[i] = f.ownSettings(defs)
		r.take(byFile[i], "file")
	}
	user := userConfig(l.opts.UserConfig, &l.out, defs)
	r.take(user, "user")
	r.bounds()
	l.configUse()
	l.batch.Settings = r.result(l.base(), defs)
	l.lints.Allow = l.batch.Settings.Allow
	l.lintConcurrent(r.given["max_concurrent"])
	for i, f := range l.files {
		f.settings, f.given = &l.batch.Settings, r.given
		f.placeWorkDir(flags, byFile[i], user)
	}
}

// base returns the default settings, which depend on the files' dialects.
func (l *loader) base() Settings {
	s := defaultSettings()
	blocks := func(f *fileJobs) bool { return f.isBlocks }
	if len(l.files) > 0 && !slices.ContainsFunc(l.files, func(f *fileJobs) bool { return !blocks(f) }) {
		s.Order, s.MaxUtil = "shuffle", 100
	}
	return s
}

func (f *fileJobs) ownSettings(defs []settingDef) []given {
	if f.isBlocks {
		return f.blockSettings(defs)
	}
	if n := source.Child(f.root, "settings"); n != nil && !source.IsNull(n) {
		return readSettings(f.src, n, defs)
	}
	return nil
}

// placeWorkDir determines the file's work dir: relative to the current folder if a
// flag gives it, otherwise to the folder of the job file.
func (f *fileJobs) placeWorkDir(flags, file, user []given) {
	f.workDir, f.dirKey, f.dirFrom = f.src.Dir, ".", "default"
	if f.isBlocks {
		f.blockWorkDir()
	}
	for i, list := range [][]given{flags, file, user} {
		at := slices.IndexFunc(list, func(g given) bool { return g.name == "work_dir" })
		if at < 0 {
			continue
		}
		g, base := list[at], f.src.Dir
		if i == 0 {
			base, _ = filepath.Abs(".")
		}
		dir, err := expand.Absolute(base, g.text)
		if err != nil {
			f.out.Add(Problem{File: g.file, Line: g.line, Col: g.col, Text: "work_dir: " + err.Error(), Hint: "set it, or write the path out"})
			return
		}
		f.workDir, f.dirKey, f.dirFrom = dir, filepath.Clean(g.text), g.source()
		return
	}
}

// expandAll makes the file's jobs.
func (f *fileJobs) expandAll() {
	b := f.batch
	first := len(b.Jobs)
	b.Files = append(b.Files, File{Path: f.src.Path, Real: f.src.Real, WorkDir: f.workDir, First: first, dir: f.dirKey})
	f.partial = f.broken
	if f.isBlocks {
		f.partial = len(f.out.Problems) > 0
		f.blockJobs()
	} else if !f.broken {
		f.native(f.root)
	}
	own := &b.Files[f.index]
	own.Dialect, own.Count = f.dialect, len(b.Jobs)-first
	f.root, f.blocks, f.alike = nil, nil, nil
}
