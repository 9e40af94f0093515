package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"gpurun/jobspec"
	"gpurun/jobspec/fold"
	"gpurun/runner/batches"
	"gpurun/runner/capture"
	"gpurun/runner/engine"
	"gpurun/runner/terminal"
	"gpurun/state"
)

type captureCmd struct {
	Output    string   `short:"o" default:"jobs.yaml" placeholder:"FILE" help:"The job file to write (default: ${default})."`
	Record    []string `sep:"none" placeholder:"GLOB" help:"Record matching commands instead of running them."`
	RunReal   []string `name:"run" sep:"none" placeholder:"GLOB" help:"Run matching commands for real."`
	GPUs      int      `name:"gpus" short:"g" default:"8" placeholder:"N" help:"Number of idle GPUs that nvidia-smi shows to the launcher (default: ${default})."`
	Network   bool     `help:"Let the launcher use the network."`
	Partial   bool     `help:"Write a job file even if the launcher fails."`
	NoSandbox bool     `help:"Run the launcher without a sandbox; it writes and removes real files."`
	Command   []string `arg:"" passthrough:"partial" name:"launcher" help:"The launcher and its arguments, after --."`
}

func (captureCmd) Help() string {
	return helpText(
		"Records training programs instead of running them, and proves that the job file starts the same commands.",
		"gpurun capture -- bash run_all.sh",
		"gpurun capture --record './train*' --run 'python count.py*' -- make -j4 all")
}

// Run captures a launcher and verifies the resulting job file. It captures twice, because one
// capture cannot distinguish commands that wait for others from commands that merely come later.
func (c *captureCmd) Run(a *app) error {
	if c.Command = afterDashes(c.Command); len(c.Command) == 0 {
		return &batches.Failure{Code: batches.ExitUsage, Text: "no launcher given", Hint: "try gpurun capture -- bash run_all.sh"}
	} else if _, err := os.Lstat(c.Output); err == nil {
		return &batches.Failure{Code: batches.ExitUsage, Text: c.Output + " exists", Hint: "choose another file with -o"}
	}
	here, err := os.Getwd()
	file, err2 := filepath.Abs(c.Output)
	dir, err3 := filepath.EvalSymlinks(filepath.Dir(file))
	if err = errors.Join(err, err2, err3); err != nil {
		return &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Err: err}
	}
	config := capture.Config{Programs: []capture.Record{{Argv: c.Command, Env: os.Environ(), Dir: here}}, Sandbox: !c.NoSandbox, Network: c.Network, GPUs: c.GPUs, Record: c.Record, Run: c.RunReal}
	r, err := capture.Run(&config)
	if errors.Is(err, capture.ErrNoSandbox) {
		return &batches.Failure{Code: batches.ExitUsage, Text: err.Error() + ": the launcher would really remove and write files", Hint: "to run it without a sandbox anyway, pass --no-sandbox", Err: err}
	} else if err != nil {
		return err
	}
	text, n := r.Stopped, state.Count(len(r.Commands), "command")
	if text == "" && r.Status != 0 {
		text = fmt.Sprintf("the launcher exited with status %d after %s: %s", r.Status, n, terminal.CleanText(r.Last))
	}
	if len(r.Commands) == 0 {
		return &batches.Failure{Code: batches.ExitFailed, Text: cmp.Or(text, "the launcher started no command; if it does the training itself, write it as one job")}
	} else if text != "" && !c.Partial {
		return &batches.Failure{Code: batches.ExitFailed, Text: text + " (--partial writes the captured commands)"}
	}
	m := &capture.Mapping{Base: os.Environ(), Dir: dir}
	m.Index(r.Commands)
	captures := [][]capture.Record{r.Commands}
	if !c.NoSandbox { // a second capture would repeat the launcher's real effects
		config.Oldest = true
		again, err := capture.Run(&config)
		if err != nil {
			return err
		}
		captures = append(captures, m.Same(r.Commands, again.Commands))
	}
	commands, warnings := m.Commands(captures...)
	entries, order := fold.Plan(commands)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		text = fold.Write(entries)
		if m.Most > 0 {
			text = fmt.Sprintf("settings: {max_concurrent: %d}\n", m.Most) + text
		}
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return err
	}
	jobs := 0
	for _, e := range entries {
		jobs += len(e.Jobs)
	}
	fmt.Fprintf(a.out, "%s recorded, none run: %s in %s\n", n, state.Count(jobs, "job"), state.Count(len(entries), "entry"))
	warnings = slices.Concat(warnings, order, m.Changes(r), r.Warnings)
	if c.NoSandbox {
		warnings = append(warnings, "no sandbox: the launcher ran for real, and gpurun recorded only programs found on PATH")
	}
	a.Warn(warnings...)
	if err := c.prove(m, config, r.Commands); err != nil {
		_ = os.Remove(file)
		return &batches.Failure{Code: batches.ExitInternal, Text: "proof failed, so " + c.Output + " was removed: " + err.Error(), Err: err}
	}
	fmt.Fprintf(a.out, "proof: %s starts the %s with identical arguments, folder and environment\n", c.Output, n)
	if _, err := jobspec.Load([]string{c.Output}, jobspec.Options{Lint: true}); err != nil { // for example, because of docker run -d
		if list := jobspec.Problems(err); len(list) > 0 {
			a.Warn("gpurun check refuses this file: " + list[0].Place() + list[0].Message())
			a.Hint(list[0].Hint)
		}
	}
	return nil
}

// prove runs the commands of each job under recorders, and checks that they start the captured
// programs.
func (c *captureCmd) prove(m *capture.Mapping, config capture.Config, want []capture.Record) error {
	batch, err := jobspec.Load([]string{c.Output}, jobspec.Options{})
	if err != nil {
		return err
	}
	shell, _ := exec.LookPath("bash") // a job's own PATH may not include it
	config.Proof, config.Programs = true, nil
	for i := range batch.Jobs {
		r, err := batch.Render(&batch.Jobs[i], jobspec.Runtime{Environ: os.Environ(), Port: 29500})
		if err != nil {
			return err
		}
		for _, command := range r.Commands {
			config.Programs = append(config.Programs, capture.Record{Argv: []string{shell, "-e", "-o", "pipefail", "-c", command}, Env: engine.Layered(os.Environ(), r.Env), Dir: r.WorkDir})
		}
	}
	got, err := capture.Run(&config)
	if err != nil {
		return err
	}
	keys := map[string]int{}
	for i := range want {
		keys[m.Key(&want[i])]++
	}
	for i := range got.Commands {
		keys[m.Key(&got.Commands[i])]--
	}
	for k, n := range keys {
		if n != 0 {
			return fmt.Errorf("%+d × %s %s", -n, k, cmp.Or(got.Stopped, got.Last))
		}
	}
	return nil
}
