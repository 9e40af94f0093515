package cli

import (
	"cmp"
	"io"
	"slices"
	"time"

	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

type eventsCmd struct {
	Path   string `arg:"" optional:"" name:"file" help:"Job file (default: the one running in this folder, or the last that ran here)."`
	File   string `placeholder:"FILE" help:"The same as the file argument."`
	Follow bool   `short:"f" help:"Keep printing until the run ends."`
	After  int64  `placeholder:"SEQ" help:"Print only events after this seq."`
}

func (eventsCmd) Help() string {
	return helpText("To continue later, use --after with the last seq you saw.",
		`gpurun events jobs.yaml | jq -c 'select(.kind == "end")'`,
		"gpurun events -f --after 120 jobs.yaml")
}

func (c *eventsCmd) Run(a *app) error {
	refs, err := a.Find(cmp.Or(c.Path, c.File), "gpurun events ")
	if err != nil {
		return err
	}
	ref := refs[0]
	ref.More = nil // each ledger numbers its own facts
	batch, _ := a.Reload(nil, ref.Real)
	s := &stream{out: a.out, ledger: disk.FromStart(ref.Dir), file: ref.Real, after: c.After, secrets: batches.SecretsOf(batch)}
	if !c.Follow {
		return ignorePipe(s.print())
	}
	return a.poll(followEvery, func() (over bool, err error) {
		// Check whether the run is alive before the last read, so that the end is not missed.
		_, alive, _ := disk.Running(ref.Real, a.StateDir)
		err = s.print()
		return err != nil || !alive, ignorePipe(err)
	})
}

// A stream prints the facts in a ledger, including those that are added later.
type stream struct {
	out    io.Writer
	ledger *disk.Follower
	file   string // the job file
	after  int64  // number of the last fact to skip

	secrets []string // secrets known so far
	hide    func(string) string
}

// print prints the facts that were added since the last call.
func (s *stream) print() (err error) {
	newer := s.ledger.Next(func(seq int64, f state.Fact) {
		known := len(s.secrets)
		for _, secret := range batches.SecretsIn(&f) {
			if !slices.Contains(s.secrets, secret) {
				s.secrets = append(s.secrets, secret)
			}
		}
		if s.hide == nil || len(s.secrets) > known {
			s.hide = redact.Hiding(s.secrets)
		}
		if seq > s.after && err == nil {
			err = writeLine(s.out, redact.Document(schema.Event{Seq: seq, File: s.file, Fact: f}, s.hide))
		}
	})
	if newer != nil && err == nil {
		err = &batches.Failure{Code: batches.ExitState, Text: newer.Error(), Err: newer}
	}
	return err
}

// streamEvents prints the facts that this run adds to its ledgers. Calling rest prints the
// remaining ones and ends the stream.
func (s *shownRun) streamEvents(r *session.Run) (rest func()) {
	if s.stream == nil {
		return func() {}
	}
	var all []*stream
	for i, f := range r.Batch.Files {
		all = append(all, &stream{out: s.stream, ledger: disk.Follow(r.State.Dir(i)), file: f.Real, secrets: batches.SecretsOf(r.Batch)})
	}
	print := func() {
		for _, one := range all {
			_ = one.print() // a closed reader does not stop the run
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	r.Go(func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(followEvery):
				print()
			}
		}
	})
	return func() {
		close(stop)
		<-stopped
		print()
	}
}
