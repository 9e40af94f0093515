package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec"
	"gpurun/jobspec/source"
	"gpurun/runner/batches"
	"gpurun/runner/notify"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state/host"
)

type notifyCmd struct {
	Files []string `arg:"" optional:"" name:"file" help:"Job files with notify (default: your config.yaml alone)."`
	Test  bool     `help:"Send a test message to each target, and report failures."`
}

func (notifyCmd) Help() string {
	return helpText("Targets come from notify in the job files, or else from your config.yaml.",
		"gpurun notify jobs.yaml",
		"gpurun notify --test")
}

func (c *notifyCmd) Run(a *app) error {
	targets, from, err := a.notified(c.Files)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return &batches.Failure{Code: batches.ExitUsage, Text: "no notifications configured: no notify in " + from,
			Hint: "add notify: $MY_WEBHOOK there (under settings in a job file) and export MY_WEBHOOK=https://…; gpurun help notifications lists the services"}
	}
	if !c.Test {
		for i, label := range jobspec.Labels(targets) {
			t := &targets[i]
			text := cmp.Or(strings.Join(t.On, ", "), "only jobs that name this target")
			if t.MinDuration > 0 {
				text += ", only for runs of at least " + source.FormatDuration(t.MinDuration)
			}
			fmt.Fprintf(a.out, "%s: %s\n", terminal.CleanText(label), text)
		}
		return nil
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	lost := 0
	for _, t := range notify.Test(ctx, targets, notifyRun(c.Files), a.Go) {
		if t.Delivered {
			fmt.Fprintf(a.out, "%s: delivered\n", terminal.CleanText(t.Label))
			continue
		}
		lost++
		fmt.Fprintf(a.out, "%s: not delivered: %s\n  %s\n", terminal.CleanText(t.Label), t.Wrong, t.Fix)
	}
	if lost > 0 {
		return batches.Exit(batches.ExitFailed)
	}
	return nil
}

// notified returns the notification targets of a batch, or the user's own if files is empty, and
// where they are configured.
func (a *app) notified(files []string) ([]jobspec.Notify, string, error) {
	if len(files) == 0 {
		path, _ := batches.UserConfig()
		s, err := jobspec.UserSettings(path, nil)
		return s.Notify, path, err
	}
	b, err := a.load(&batchFlags{Files: files})
	if err != nil {
		return nil, "", err
	}
	return b.Targets(b.Settings.Notify), strings.Join(files, " ") + " or your own config.yaml", nil
}

// notifyRun returns the batch that notifications refer to.
func notifyRun(files []string) notify.Run {
	r := notify.Run{File: "gpurun", Host: host.Name()}
	if len(files) == 0 {
		return r
	}
	r.File = strings.Join(names(len(files), func(i int) string { return filepath.Base(files[i]) }), " ")
	if abs, err := filepath.Abs(files[0]); err == nil {
		r.Look = "gpurun status " + shellescape.Quote(abs)
	}
	return r
}

// closeAndNotify closes the run, and then waits a while for the last notifications.
func (s *shownRun) closeAndNotify(r *session.Run) {
	if r.Close(); s.notifier == nil {
		return
	}
	ctx, stop := s.UntilSignal()
	defer stop()
	if s.ErrTTY {
		t := time.AfterFunc(time.Second, func() { s.say("note", "sending notifications; press Ctrl-C to skip") })
		defer t.Stop()
	}
	if err := s.notifier.Close(ctx); err != nil && ctx.Err() == nil {
		for line := range strings.Lines(err.Error()) {
			s.Warn(strings.TrimSpace(line))
		}
	}
}
