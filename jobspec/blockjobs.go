package jobspec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"gpurun/gpu"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
	"gpurun/jobspec/written"
)

// readBlocks reads a file of the block dialect and the config.yaml beside it.
func (f *fileJobs) readBlocks() {
	f.dialect = "block"
	var problems []Problem
	f.blocks, problems = parseBlocks(f.src.Path, f.src.Data)
	for _, p := range problems {
		f.out.Add(p)
	}
	f.config, problems = readBlockConfig(f.src.Path, f.opts.Config)
	for _, p := range problems {
		f.out.Add(p)
	}
	for _, p := range f.config.warnings {
		f.out.Warn(p)
	}
	if f.config.file != nil {
		f.config.file.Out = f.src.Out
	}
	if len(f.blocks) == 0 && len(f.out.Problems) == 0 {
		f.src.Problem(0, 0, "a block is its commands, then a line \"queue,GB\"", "contains no blocks")
	}
	if f.config.Ignored {
		f.out.Warn(Problem{File: f.configPath(), Text: "is ignored: none of its keys is a job-file setting", Hint: "see the block dialect in docs/jobfile.md"})
	}
}

func (f *fileJobs) configPath() string {
	if f.opts.Config != "" {
		return f.opts.Config
	}
	return filepath.Join(filepath.Dir(f.src.Path), "config.yaml")
}

// blockSettings returns what config.yaml sets, under the native names.
func (f *fileJobs) blockSettings(defs []settingDef) []given {
	names := settingNames(defs)
	var list []given
	for _, s := range f.config.Settings {
		if !slices.Contains(names, s.Name) {
			f.out.Add(Problem{File: f.configPath(), Line: s.Line, Text: fmt.Sprintf("unknown setting %q", s.Name), Hint: settingHint(s.Name, names)})
			continue
		}
		list = append(list, given{s.Name, s.Value, f.configPath(), s.Line, 0})
	}
	return list
}

// blockWorkDir is the parent of the job file's folder unless config.yaml names one.
func (f *fileJobs) blockWorkDir() {
	f.workDir, f.dirKey = filepath.Dir(f.src.Dir), ".."
	if f.config.WorkDir == "" {
		return
	}
	f.workDir = f.config.WorkDir
	if f.config.WorkDirLine > 0 {
		f.dirFrom = given{file: f.configPath(), line: f.config.WorkDirLine}.source()
	}
	// The key keeps it as written: absolute, or relative to the job file.
	if rel, err := filepath.Rel(f.src.Dir, f.workDir); err == nil {
		f.dirKey = rel
	}
	if data, err := source.ReadRegular(f.configPath()); err == nil {
		root, _ := source.ParseYAML(data)
		if n := source.Child(root, "work_dir"); n != nil && filepath.IsAbs(n.Value) {
			f.dirKey = f.workDir
		}
	}
}

// blockJobs makes a job of each block.
func (f *fileJobs) blockJobs() {
	f.batch.Files[f.index].UniID = filepath.Join(filepath.Dir(f.src.Real), "logs", "uni_id.json")
	count := map[string]int{}
	for i := range f.blocks {
		bl := &f.blocks[i]
		count[bl.Queue]++
		p := &proto{Job: &written.Job{Line: bl.Line, Col: 1, Matrix: &expand.Matrix{}}, src: f.src, file: f, block: true}
		p.Name = expand.Literal(fmt.Sprintf("q%s-%d", bl.Queue, count[bl.Queue]))
		p.Name.Line, p.Name.Col = bl.Line, 1
		queue := expand.Literal(bl.Queue)
		p.Queue = &queue
		for _, c := range bl.Commands {
			t, _ := p.compile(c.Text, c.Line, c.Col, "a command", expand.AtStart)
			p.guardWorkDir(&t)
			p.lookAlike(c.Text, c.Line, c.Col)
			if len(bl.Commands) > 1 && onlyShell.MatchString(t.Raw) {
				f.src.Warning(c.Line, c.Col, "join them: "+source.Clip(t.Raw)+" && …", "%q has no effect on the next command: each runs in its own shell", source.Clip(t.Raw))
			}
			p.Commands = append(p.Commands, t)
		}
		p.checkConfigUse(false)
		p.shared = p.blockSpec(bl)
		p.common(p.shared, len(f.blocks))
		f.expand(p)
		p.lint(fields{})
	}
}

func (p *proto) blockSpec(bl *block) *Spec {
	s := &Spec{When: OnSuccess, Grace: p.file.settings.Grace, Allow: p.file.settings.Allow, Tree: true, text: p.Job}
	s.Retry = Retry{Max: -1, BackoffAfter: 3, Backoff: 10 * time.Minute}
	if p.file.config.Retry != nil {
		s.Retry = *p.file.config.Retry
	}
	s.Family = p.familyOf(gpu.Request{Min: bl.GPUs, Max: bl.GPUs})
	if bl.GPUs == 0 {
		s.CPUs = 1
		return s
	}
	share := p.shares()
	s.Request = gpu.Request{Min: bl.GPUs, Max: bl.GPUs, Memory: gpu.Bytes(bl.GiB * float64(gpu.GiB)), Share: share, MaxUtil: p.util(share)}
	return s
}

// guardWorkDir refuses an unquoted {work_dir} whose value needs quotes: rm -rf
// {work_dir}/x must not see half a path.
func (p *proto) guardWorkDir(t *expand.Text) {
	dir := p.file.workDir
	if shellescape.Quote(dir) == dir {
		return
	}
	quote := byte(0)
	for _, g := range t.Segs {
		if g.Kind == expand.VarLiteral {
			quote = quoteAfter(g.Lit, quote)
			continue
		}
		risky := quote == 0 || quote == '"' && strings.ContainsAny(dir, "\"$`\\") || quote == '\'' && strings.Contains(dir, "'")
		if g.Kind == expand.VarWorkDir && g.Format != "q" && risky {
			l, c := p.src.Find(t.Line, t.Col, g.Lit)
			p.src.Problem(l, c, "write {work_dir:q}", "{work_dir} is not quoted, and the shell would split or expand its value %s", strconv.Quote(dir))
			return
		}
	}
}

// quoteAfter returns the quote that a shell has open after s, or 0.
func quoteAfter(s string, quote byte) byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		}
	}
	return quote
}
