package jobspec

// This file reads the dialects whose files contain little but commands: blocks, and lists of
// commands.

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/gpu"
	"gpurun/jobspec/block"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// isBlocks reports whether a file of unknown format is a block file.
func isBlocks(s *source.Source) bool {
	return !isYAML(s) && (strings.ToLower(filepath.Ext(s.Path)) == ".txt" || block.IsBlockFile(s.Data))
}

// readBlocks reads a block file and the config.yaml next to it.
func (f *fileJobs) readBlocks() {
	var problems []Problem
	f.blocks, problems = block.Parse(f.src.Path, f.src.Data)
	f.out.Add(problems...)
	f.config = block.ReadConfig(f.src, f.opts.Config, ourKeys(), jobKeys, &f.out)
	f.workDir, f.dirKey, f.dirFrom = f.config.WorkDir, f.config.DirKey, f.config.DirFrom
	if len(f.blocks) == 0 && len(f.out.Problems) == 0 {
		f.src.Problem(0, 0, "a block is one or more commands, then a line \"queue,GB\"", "contains no blocks")
	}
}

func (f *fileJobs) blockSettings() []settings.Given { return f.config.Settings }

// blockJobs creates a job for each block.
func (f *fileJobs) blockJobs() {
	f.style, f.partial = ofBlocks, len(f.out.Problems) > 0
	f.batch.Files[f.index].UniID = filepath.Join(filepath.Dir(f.src.Real), "logs", "uni_id.json")
	count := map[string]int{}
	for i := range f.blocks {
		bl := &f.blocks[i]
		count[bl.Queue]++
		p := f.newProto(ofBlocks, bl.Line, 1)
		p.Name = expand.Literal(fmt.Sprintf("q%s-%d", bl.Queue, count[bl.Queue]), bl.Line, 1)
		p.Queue = expand.Literal(bl.Queue, bl.Line, 1)
		p.Block = true
		for _, c := range bl.Commands {
			t, _ := p.compile(c.Text, c.Line, c.Col, "a command", expand.AtStart)
			p.guardWorkDir(t)
			lint.LookAlike(p.src, c.Text, c.Line, c.Col)
			p.Commands = append(p.Commands, t)
		}
		p.noConfig(p.Commands)
		p.setResource("gpus", strconv.Itoa(bl.GPUs))
		p.setResource("gpu_memory", source.FormatSize(gpu.Bytes(bl.GiB*float64(gpu.GiB))))
		p.applyConfigKeys()
		for _, t := range p.Commands[p.Activation():] {
			if len(p.Commands) > 1 {
				p.warnOnlyShell(t, "join them: "+source.Clip(t.Raw)+" && …")
			}
		}
		f.expand(p)
		p.lint(nil)
	}
}

// setResource sets a resource that does not come from a job key, unless value is "".
func (p *proto) setResource(key, value string) {
	if value != "" {
		p.Resources = append(p.Resources, expand.Resource{Key: key, Texts: []*expand.Text{expand.Literal(value, p.Line, p.Col)}})
	}
}

// guardWorkDir refuses an unquoted {work_dir} whose value needs quotes: rm -rf {work_dir}/x must
// never run with half of a path.
func (p *proto) guardWorkDir(t *expand.Text) {
	dir := p.file.workDir
	if shellescape.Quote(dir) == dir {
		return
	}
	quote := byte(0)
	for _, g := range t.Segs {
		if g.Kind == expand.VarLiteral {
			quote = lint.QuoteAfter(g.Lit, quote)
			continue
		}
		risky := quote == 0 || quote == '"' && strings.ContainsAny(dir, "\"$`\\") || quote == '\'' && strings.Contains(dir, "'")
		if g.Kind == expand.VarWorkDir && g.Format != "q" && risky {
			l, c := p.src.Find(t.Line, t.Col, g.Lit)
			p.src.Problem(l, c, "write {work_dir:q}", "{work_dir} is not quoted, so the shell would split or expand %s", strconv.Quote(dir))
			return
		}
	}
}

// applyConfigKeys applies the job keys in the config file to a block.
func (p *proto) applyConfigKeys() {
	c := p.file.config
	if c.Job == nil {
		return
	}
	src := p.src
	p.src = c.File
	p.keys = c.Job
	p.readResources()
	p.readEnv()
	p.readShell()
	p.Log, p.Stdout, p.Stderr = p.ownFile("log"), p.ownFile("stdout"), p.ownFile("stderr")
	p.checkPaths()
	p.noConfig(append(p.Logs(), p.Run()[len(p.Commands):]...))
	p.spec(&expand.Values{Name: p.Name.Raw}) // reports problems at their position in the config file
	p.src = src
}

// ownFile reads the path of a log, which must be different for each block.
func (p *proto) ownFile(key string) *expand.Text {
	blocks := len(p.file.blocks)
	t := p.optional(key, expand.InLog)
	if t != nil && blocks > 1 && t.Raw != "/dev/null" && !t.Uses(expand.VarName) && !t.Uses(expand.VarUniID) {
		p.src.Problem(t.Line, t.Col, "add {name} to the path", "%s: all %d blocks would write to the same file, %s", key, blocks, t.Raw)
		return nil
	}
	return t
}

// Lines holds the keys that the command line sets for all jobs of a lines file, which itself
// contains only commands.
type Lines struct {
	GPUs      string `json:"gpus,omitempty"` // as in a job file; "" for the default
	GPUMemory string `json:"gpu_memory,omitempty"`
	Timeout   string `json:"timeout,omitempty"`
	Retry     string `json:"retry,omitempty"`
	Setup     string `json:"setup,omitempty"` // runs before each line, in the same shell
	Input     []byte `json:"input,omitempty"` // the lines themselves, if they came from standard input

	Names map[string]string `json:"names"` // names of long lines, by hash; nil if recorded by a version that did not keep names
	Kept  bool              `json:"-"`     // recorded by an earlier run; ignored if the file is now a job file
}

// source reads a job file, or returns the lines from standard input.
func (l *loader) source(path string) *source.Source {
	if input := l.opts.Lines[path].Input; input != nil {
		return source.Given(path, input, &l.out)
	}
	return source.Read(path, &l.out)
}

var interpreter = regexp.MustCompile(`^#!\S*/(?:env (?:-S )?)?((?:ba|da|k|z|)sh|python[0-9.]*)\s`)

// offerExec refuses a program, because its lines are not jobs, and suggests commands that run it.
func (f *fileJobs) offerExec() bool {
	if f.dialect != &yamlFormat || isYAML(f.src) {
		return false
	}
	program := "python"
	if m := interpreter.FindSubmatch(f.src.Data); m != nil {
		program = string(m[1])
	} else if filepath.Ext(f.src.Path) != ".py" {
		return false
	}
	program += " " + shellescape.Quote(f.src.Path)
	f.src.Problem(0, 0, "to run it on a GPU: gpurun exec -- "+program+"; to turn the commands that it starts into jobs: gpurun capture -- "+program, "is a program, not a job file")
	return true
}

// offerLines refuses a file of unknown format that looks like a list of commands, and suggests
// --lines.
func (f *fileJobs) offerLines() bool {
	if isYAML(f.src) || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(f.src.Path)) || !looksLikeLines(f.src.Data) {
		return false
	}
	f.src.Problem(0, 0, "to make each line a job: "+cmp.Or(f.opts.Command, "gpurun")+" --lines "+shellescape.Quote(f.src.Path), "is a list of commands, not a job file")
	return true
}

// readLines reads a list of commands.
func (f *fileJobs) readLines() {
	if jobsAtTop.Match(f.src.Data) {
		f.src.Problem(0, 0, "remove --lines; in place of the flags for lines, set the job keys gpu_memory, gpus, timeout, retry, setup", "is a job file, not a list of commands")
		f.partial = true
		return
	}
	var problems []Problem
	var note Problem
	f.lines, problems, note = parseLines(f.src.Path, f.src.Data)
	f.out.Add(problems...)
	if note.Text != "" {
		f.out.Warn(note)
	}
	f.partial = len(problems) > 0
	kept := f.opts.Lines[f.src.Path].Names
	f.names = map[string]string{}
	maps.Copy(f.names, kept)
	nameDistinctly(f.lines, f.names, kept != nil)
	if len(f.lines) == 0 && len(problems) == 0 {
		f.src.Problem(0, 0, "write a command on each line", "contains no commands")
	}
}

// lineJobs creates a job for each line.
func (f *fileJobs) lineJobs() {
	f.style = ofLines
	set := f.opts.Lines[f.src.Path]
	set.Names = f.names
	f.batch.Files[f.index].Lines = &set
	for _, l := range f.lines {
		p := f.newProto(ofLines, l.Line, l.Col)
		p.Name = expand.Literal(l.Name, l.Line, l.Col)
		t, _ := p.compile(l.Text, l.Line, l.Col, "a line", expand.AtStart)
		lint.LookAlike(p.src, l.Text, l.Line, l.Col)
		if set.Setup != "" {
			p.Setup, _ = p.compile(set.Setup, l.Line, l.Col, "--setup", expand.AtStart)
			t = t.Below(p.Setup)
		}
		p.Commands = []*expand.Text{t}
		p.noConfig(p.Commands)
		p.setResource("gpus", set.GPUs)
		p.setResource("gpu_memory", set.GPUMemory)
		p.setResource("timeout", set.Timeout)
		p.setResource("retry", set.Retry)
		f.expand(p)
		p.lint(nil)
	}
}
