package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"al.essio.dev/pkg/shellescape"
	"github.com/google/renameio/v2"

	"gpurun/jobspec"
	"gpurun/jobspec/expand"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/state/disk"
	"gpurun/state/host"
)

type addCmd struct {
	File     string `arg:"" name:"file" help:"The job file."`
	Name     string `placeholder:"NAME" help:"Name of the job (default: job-1, job-2, …)."`
	askFlags `embed:""`
	Needs    []string `sep:"none" placeholder:"JOB" help:"Jobs that must succeed first: a name or glob (repeatable)."`
	Priority *int     `placeholder:"N" help:"Priority of the job; jobs with higher priority start first (default: 0)."`
	Command  []string `arg:"" passthrough:"partial" name:"command" help:"The command, after --."`
}

func (addCmd) Help() string {
	return helpText("Quotes each argument, keeps the rest of the file unchanged, and skips duplicate commands.",
		"gpurun add jobs.yaml -- python train.py --lr 0.1",
		"gpurun add jobs.yaml --name eval -g 2 --needs 'train-*' -- python eval.py",
		"gpurun add jobs.yaml -- sh -c 'python prepare.py && python train.py'")
}

// Run appends a job to a file, and makes the file's run reload it.
func (c *addCmd) Run(a *app) error {
	argv := afterDashes(c.Command)
	if len(argv) == 0 {
		return &batches.Failure{Code: batches.ExitUsage, Text: "no command given", Hint: "try gpurun add " + shellescape.Quote(c.File) + " -- python train.py"}
	}
	if word := argv[0]; len(argv) == 1 && strings.ContainsAny(word, " \t\n") {
		if _, err := exec.LookPath(word); err != nil {
			return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("%q is a single argument, and no program has that name", word),
				Hint: "remove the quotes around it, or write " + shellescape.QuoteCommand([]string{"gpurun", "add", c.File, "--", "sh", "-c", word})}
		}
	}
	ref, err := a.Open(c.File)
	if err != nil {
		return err
	}
	ask := c.given(jobspec.Lines{})
	job := jobspec.Addition{
		Name: c.Name, GPUs: jobspec.PlainValue(ask.GPUs), GPUMemory: jobspec.PlainValue(ask.GPUMemory), Timeout: jobspec.PlainValue(ask.Timeout), Retry: jobspec.PlainValue(ask.Retry),
		Needs: c.Needs, Priority: c.Priority, Run: jobspec.OneLine(expand.Escape(shellescape.QuoteCommand(argv))),
	}
	line, name, err := 0, "", editable(ref.Real)
	if err == nil {
		unlock, lockErr := disk.LockEdits(ref.Real, a.StateDir)
		if lockErr != nil {
			return batches.StateFailure(lockErr)
		}
		line, name, err = a.append(ref, job)
		unlock()
	}
	var known *jobspec.AlreadyThere
	switch {
	case errors.As(err, &known):
		fmt.Fprintf(a.out, "%s: %s; to rerun it, run gpurun retry or gpurun forget\n", ref.Name(), known.Error())
		return nil
	case err != nil:
		return a.notAdded(ref, job, err)
	}
	said := fmt.Sprintf("%s: added on line %d", ref.Name(), line)
	ref.Look()
	rep, err := ref.Ask(control.Request{Op: control.OpReload})
	var silent *batches.Failure
	switch {
	case errors.Is(err, control.ErrNoRun) && !errors.As(err, &silent):
		fmt.Fprintln(a.out, said+"; no run is active: gpurun "+shellescape.Quote(ref.File)+" starts one")
		return nil
	case errors.As(err, &silent):
		return &batches.Failure{Code: batches.ExitState, Text: said + ", but gpurun cannot reach the run: " + silent.Text, Hint: silent.Hint, Err: err}
	case err != nil:
		return &batches.Failure{Code: batches.ExitFailed, Text: said + ", but the run refused it: " + err.Error(), Lines: rep.Lines, Err: err}
	}
	rep, err = ref.Ask(control.Request{Op: control.OpWait, File: ref.Real, Jobs: []string{name}})
	if err == nil && len(rep.Jobs) == 1 && rep.Jobs[0].State == "" {
		fmt.Fprintln(a.out, said+"; the current run does not include the job, because of --only, --skip or --tag: gpurun "+shellescape.Quote(ref.File)+" starts the job after that run")
		return nil
	}
	fmt.Fprintln(a.out, said+"; the run has picked it up")
	return nil
}

// notAdded returns a failure. Unless something is wrong with the job, it has the lines that a user can
// write in the file instead.
func (a *app) notAdded(ref *batches.Ref, job jobspec.Addition, err error) error {
	f, why := &batches.Failure{Code: batches.ExitFailed, Err: err}, err.Error()
	if problem := (jobspec.Problem{}); !errors.As(err, &problem) {
		f.Hint, f.Lines = "add this job by hand", []string{jobspec.ListItem(job)}
		dialect := ""
		if b, err := a.Reload(nil, ref.Real); err == nil {
			dialect = b.Files[0].Dialect
		}
		if hint := map[string]string{"lines": "append this line by hand", "block": "add a block with this command by hand"}[dialect]; hint != "" {
			why, f.Hint, f.Lines = "gpurun add changes only YAML files", hint, []string{string(job.Run)}
		}
	}
	f.Text = fmt.Sprintf("no job was added to %s: %s", ref.File, why)
	return f
}

// append adds a job at the end of the job file, and returns the job's line and name. The caller
// holds the edit lock. If another program changes the file in the meantime, append fails rather
// than overwriting that change.
func (a *app) append(ref *batches.Ref, job jobspec.Addition) (line int, name string, err error) {
	info, err := os.Stat(ref.Real)
	if err == nil {
		err = editable(ref.Real)
	}
	if err != nil {
		return 0, "", err
	}
	was, err := os.ReadFile(ref.Real)
	if err != nil {
		return 0, "", err
	}
	text, line, err := jobspec.Append(was, job)
	if err != nil {
		return 0, "", err
	}
	out, err := renameio.NewPendingFile(ref.Real, renameio.WithTempDir(filepath.Dir(ref.Real)), renameio.WithStaticPermissions(info.Mode().Perm()))
	if err != nil {
		return 0, "", err
	}
	defer out.Cleanup()
	_ = out.Chown(-1, int(info.Sys().(*syscall.Stat_t).Gid)) // fails only if the owner has left the group
	if _, err := out.Write(text); err != nil {
		return 0, "", err
	}
	if name, err = a.sameJobs(ref, out.Name(), string(job.Run)); err != nil {
		return 0, "", err
	}
	if now, err := os.ReadFile(ref.Real); err != nil || !bytes.Equal(now, was) {
		return 0, "", errors.New("another program just changed the file: try again")
	}
	return line, name, out.CloseAtomicallyReplace()
}

// editable returns nil if this user may change the file, or else why not.
func editable(path string) error {
	f, info, err := host.OpenRegular(path)
	if err != nil {
		return err
	}
	f.Close()
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case int(st.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	case st.Nlink > 1:
		return errors.New("it has several names (hard links)")
	}
	return nil
}

// sameJobs returns an error unless the file at path, a new version of the job file, contains the
// old jobs and exactly one new job, which runs the command run. It returns the name of the new job.
func (a *app) sameJobs(ref *batches.Ref, path, run string) (name string, err error) {
	load := func(path string) (*jobspec.Batch, error) {
		o := a.Options(nil)
		o.Format = "yaml"
		b, err := a.Load([]string{path}, o)
		if ps := jobspec.Problems(err); len(ps) > 0 {
			p := ps[0]
			if p.File, p.Text = ref.File, strings.ReplaceAll(p.Text, path, ref.File); path != ref.Real {
				p.File, p.Line, p.Col = "", 0, 0 // the file does not have that line
			}
			return nil, p
		}
		return b, err
	}
	was, err := load(ref.Real)
	if err != nil {
		return "", err
	}
	is, err := load(path)
	if err != nil {
		return "", err
	}
	same := func(x, y jobspec.Job) bool { return x.Key == y.Key && x.Name == y.Name }
	switch n := len(was.Jobs); {
	case len(is.Jobs) <= n || !slices.EqualFunc(was.Jobs, is.Jobs[:n], same):
		return "", errors.New("a job at the end of the file would change the others")
	case len(is.Jobs) > n+1:
		return "", errors.New("the defaults of the file turn the job into several")
	}
	r, err := is.Render(&is.Jobs[len(is.Jobs)-1], jobspec.Runtime{Attempt: 1})
	if err != nil {
		return "", err
	}
	if want := strings.Join(r.Commands, "\n"); !strings.HasSuffix(expand.Escape(want), run) { // setup commands precede run
		return "", fmt.Errorf("the defaults of the file change the command to %q", want)
	}
	return is.Jobs[len(is.Jobs)-1].Name, nil
}
