package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/batches"
	"gpurun/runner/files"
	"gpurun/runner/report"
	"gpurun/runner/results"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

type reportCmd struct {
	Path   string `arg:"" optional:"" name:"file" help:"Job file (default: the one running in this folder, or the last that ran here)."`
	File   string `placeholder:"FILE" help:"The same as the file argument."`
	Output string `short:"o" placeholder:"FILE" help:"Where to write the report; - for standard output (default: NAME-report.html)."`
	JSON   bool   `name:"json" help:"Print the data as JSON instead."`

	runFlag `embed:""`
}

func (reportCmd) Help() string {
	return helpText(
		"Writes one file with the timeline, GPUs, results, failures and commands; it contains no secrets and needs no network.",
		"gpurun report",
		"gpurun report jobs.yaml -o ~/report.html",
		"gpurun report --json | jq '.failures[] | {count, cause}'")
}

func (c *reportCmd) Run(a *app) error {
	refs, err := a.Find(cmp.Or(c.Path, c.File), "gpurun report ")
	if err != nil {
		return err
	}
	c.choose(refs)
	doc, err := reportOf(refs[0])
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(a.out, doc)
	case c.Output == "-" || isStdout(c.Output): // printing the file's name would append it to the page
		return ignorePipe(report.HTML(a.out, doc))
	}
	name, write := strings.TrimSuffix(filepath.Base(refs[0].Real), filepath.Ext(refs[0].Real))+"-report.html", disk.Replace
	if c.Output != "" {
		name, write = c.Output, overwrite
	}
	var page bytes.Buffer
	if err := report.HTML(&page, doc); err != nil {
		return err
	}
	if err := write(name, page.Bytes()); err != nil {
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("cannot write %s: %v", name, err), Err: err, Hint: "choose another file with -o"}
	}
	_, err = fmt.Fprintf(a.out, "%s (%s)\n", name, gpu.Bytes(page.Len()).Round())
	return err
}

// isStdout reports whether a path leads to standard output.
func isStdout(name string) bool {
	file, err1 := os.Stat(name)
	out, err2 := os.Stdout.Stat()
	return err1 == nil && err2 == nil && os.SameFile(file, out)
}

// overwrite replaces the content of a file that the user has named, and follows symlinks. If it is
// a device or a pipe, such as /dev/stdout, overwrite writes to it instead of replacing it.
func overwrite(name string, data []byte) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return host.Cause(os.WriteFile(name, data, 0o666))
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	return disk.Replace(name, data)
}

// maxCurved is how many jobs may have curves in a report.
const maxCurved = 2000

// reportOf collects the data about a batch for a report.
func reportOf(ref *batches.Ref) (*schema.Report, error) {
	if err := ref.Read(); err != nil {
		return nil, err
	}
	k := &report.Input{Starts: map[report.ID]*state.Fact{}, Lines: logLines}
	if ref.Batch != nil {
		if m, err := ref.Measure(ref.Files(), ref.Which); err == nil && len(m.Data.Metrics) > 0 {
			k.Results, _ = m.Table(results.Options{})
		}
	}
	k.Status = ref.Status()
	p := ref.RunLog()
	k.Runs, k.Secrets, k.Readings = p.Rows(time.Time{}), p.Secrets, ref.Readings()
	now, last, curved := time.Now(), map[string]state.Phase{}, 0 // by uni_id of a job's last attempt
	for _, j := range k.Status.Jobs {
		if a := j.Attempt; a != nil && a.UniID != nil {
			last[*a.UniID] = j.State
		}
	}
	k.Usage = p.Usage(k.Readings, now)
	for _, x := range p.Attempts {
		k.Attempts = append(k.Attempts, p.Attempt(x, now))
		is, shown := last[x.UniID]
		if !shown || curved == maxCurved {
			continue
		}
		list := ref.Curves(x)
		if len(list) > 0 {
			curved++
		}
		for _, c := range list {
			k.Curves = append(k.Curves, schema.ReportCurve{Job: x.Job, UniID: x.UniID, Pruned: is == state.Pruned, Curve: c})
		}
	}
	for i, file := range ref.Files() {
		dir := ref.Folder(i)
		disk.FromStart(dir).Next(func(_ int64, f state.Fact) {
			if f.Kind == state.KindStart {
				k.Starts[report.ID{File: file, Key: f.Key}] = &f
			}
		})
	}
	return report.Build(k), nil
}

// How much of the end of a log a report includes.
const (
	reportLines = 20
	reportTail  = 16 << 10
)

// logLines returns the last lines of an attempt's part of its log, as a terminal would show them.
func logLines(l *schema.Log) []string {
	text := strings.TrimRight(string(files.Tail(l.Path, schema.Value(l.From), reportTail)), "\r\n \t")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-reportLines):]
	for i, line := range lines {
		lines[i] = terminal.Clean(line)
	}
	return lines
}
