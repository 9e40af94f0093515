package jobspec

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"gpurun/gpu"
	"gpurun/jobspec/block"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/slips"
	"gpurun/jobspec/source"
	"gpurun/jobspec/written"
)

// isBlocks reports whether a file of unknown kind is a block file.
func isBlocks(s *source.Source) bool {
	return !isYAML(s) && (strings.ToLower(filepath.Ext(s.Path)) == ".txt" || block.Looks(s.Data))
}

// readBlocks reads a file of the block dialect and the config.yaml beside it.
func (f *fileJobs) readBlocks() {
	var problems []Problem
	f.blocks, problems = block.Parse(f.src.Path, f.src.Data)
	for _, p := range problems {
		f.out.Add(p)
	}
	f.config = block.ReadConfig(f.src, f.opts.Config, ourKeys(), &f.out)
	f.workDir, f.dirKey, f.dirFrom = f.config.WorkDir, f.config.DirKey, f.config.DirFrom
	if len(f.blocks) == 0 && len(f.out.Problems) == 0 {
		f.src.Problem(0, 0, "a block is its commands, then a line \"queue,GB\"", "contains no blocks")
	}
}

func (f *fileJobs) blockSettings() []settings.Given { return f.config.Settings }

// blockJobs makes a job of each block.
func (f *fileJobs) blockJobs() {
	f.style, f.partial = ofBlocks, len(f.out.Problems) > 0
	f.batch.Files[f.index].UniID = filepath.Join(filepath.Dir(f.src.Real), "logs", "uni_id.json")
	count := map[string]int{}
	for i := range f.blocks {
		bl := &f.blocks[i]
		count[bl.Queue]++
		p := &proto{Job: &written.Job{Line: bl.Line, Col: 1, Matrix: expand.Single()}, src: f.src, file: f, style: ofBlocks}
		p.Name = expand.Literal(fmt.Sprintf("q%s-%d", bl.Queue, count[bl.Queue]), bl.Line, 1)
		p.Queue = expand.Literal(bl.Queue, bl.Line, 1)
		for _, c := range bl.Commands {
			t, _ := p.compile(c.Text, c.Line, c.Col, "a command", expand.AtStart)
			p.guardWorkDir(t)
			slips.LookAlike(p.src, c.Text, c.Line, c.Col)
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

func (p *proto) blockSpec(bl *block.Block) *Spec {
	s := &Spec{When: OnSuccess, Grace: p.file.settings.Grace, Allow: p.file.settings.Allow, Tree: true, text: p.Job}
	s.Retry = Retry{Max: -1, BackoffAfter: 3, Backoff: 10 * time.Minute}
	if r := p.file.config.Retry; r != nil {
		s.Retry = Retry{Max: -1, BackoffAfter: r.BackoffAfter, Backoff: r.Backoff}
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
			quote = slips.QuoteAfter(g.Lit, quote)
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

// common gives a block the job keys of its config file.
func (p *proto) common(s *Spec, blocks int) {
	c := p.file.config
	if c.Job == nil {
		return
	}
	src := p.src
	p.src = c.File
	defer func() { p.src = src }()
	f := fields{c.Job, c.Job}
	p.readResources(f)
	p.readEnv(f.get("env"))
	p.readShell(f.get("shell"))
	p.Log, p.Stdout, p.Stderr = p.ownFile(f, "log", blocks), p.ownFile(f, "stdout", blocks), p.ownFile(f, "stderr", blocks)
	p.checkPaths()
	p.checkConfigUse(false)
	d := draft{Spec: *s, given: map[string]*expand.Text{}}
	p.read(&d, &expand.Values{Name: p.Name.Raw})
	*s = d.Spec
	s.LogNamed = p.Log != nil || p.Stdout != nil || p.Stderr != nil
}

// ownFile reads the path of a log, which must differ from block to block.
func (p *proto) ownFile(f fields, key string, blocks int) *expand.Text {
	t := p.optional(f, key, expand.InLog)
	if t != nil && blocks > 1 && t.Raw != "/dev/null" && !t.Uses(expand.VarName) && !t.Uses(expand.VarUniID) {
		p.src.Problem(t.Line, t.Col, "add {name} to the path", "%s: all %d blocks would write to the same file, %s", key, blocks, t.Raw)
		return nil
	}
	return t
}
