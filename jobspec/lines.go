package jobspec

import (
	"path/filepath"
	"slices"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/lines"
	"gpurun/jobspec/slips"
	"gpurun/jobspec/source"
	"gpurun/jobspec/written"
)

// Lines is what the command line says about the jobs of a lines file, whose own text has
// only their commands.
type Lines struct {
	GPUs      string `json:"gpus,omitempty"` // as in a job file; "" for what a job has that does not say
	GPUMemory string `json:"gpu_memory,omitempty"`
	Timeout   string `json:"timeout,omitempty"`
	Retry     string `json:"retry,omitempty"`
	Setup     string `json:"setup,omitempty"` // runs before each line, in the same shell
	Input     []byte `json:"input,omitempty"` // the lines themselves, if they came from standard input
	Kept      bool   `json:"-"`               // as an earlier run read it: if it is a job file by now, it is none of lines
}

// source reads a job file, or takes its place: what came from standard input is no file.
func (l *loader) source(path string) *source.Source {
	if input := l.opts.Lines[path].Input; input != nil {
		return source.Given(path, input, &l.out)
	}
	return source.Read(path, &l.out)
}

// offerLines reports a file of unknown kind that seems to be a list of commands.
func (f *fileJobs) offerLines() bool {
	if isYAML(f.src) || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(f.src.Path)) || !lines.Looks(f.src.Data) {
		return false
	}
	f.src.Problem(0, 0, "to make each line a job: gpurun --lines "+f.src.Path, "is a list of commands, not a job file")
	return true
}

// readLines reads a list of commands.
func (f *fileJobs) readLines() {
	var problems []Problem
	var note Problem
	f.lines, problems, note = lines.Parse(f.src.Path, f.src.Data)
	for _, p := range problems {
		f.out.Add(p)
	}
	if note.Text != "" {
		f.out.Warn(note)
	}
	f.partial = len(problems) > 0
	if len(f.lines) == 0 && len(problems) == 0 {
		f.src.Problem(0, 0, "write a command on each line", "contains no commands")
	}
}

// lineJobs makes a job of each line.
func (f *fileJobs) lineJobs() {
	f.style = ofLines
	set := f.opts.Lines[f.src.Path]
	f.batch.Files[f.index].Lines = &set
	for _, l := range f.lines {
		p := f.newProto(ofLines, l.Line, l.Col)
		p.Matrix = &expand.Matrix{}
		p.Name = expand.Literal(l.Name, l.Line, l.Col)
		text := l.Text
		if set.Setup != "" {
			text = set.Setup + "\n" + text
		}
		t, _ := p.compile(text, l.Line, l.Col, "a line", expand.AtStart)
		slips.LookAlike(p.src, l.Text, l.Line, l.Col)
		p.Commands = []*expand.Text{t}
		p.checkConfigUse(false)
		for _, r := range []struct{ key, value string }{
			{"gpus", set.GPUs}, {"gpu_memory", set.GPUMemory}, {"timeout", set.Timeout}, {"retry", set.Retry},
		} {
			if r.value != "" {
				p.Resources = append(p.Resources, written.Resource{Key: r.key, Texts: []*expand.Text{expand.Literal(r.value, l.Line, l.Col)}})
			}
		}
		f.expand(p)
		p.lint(nil)
	}
}
