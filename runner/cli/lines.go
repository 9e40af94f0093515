package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/jobspec/source"
	"gpurun/runner/batches"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// lineFlags describe a list of commands: where it is, and the job settings that would otherwise be
// in a job file.
type lineFlags struct {
	Lines    []string `sep:"none" placeholder:"FILE" help:"Read a file with one command per line; - is standard input."`
	Name     string   `placeholder:"NAME" help:"Name of a batch from --lines -; gpurun status NAME finds it."`
	askFlags `embed:""`
	Setup    string `placeholder:"CMD" help:"Run CMD before each line, in the same shell."`
}

// askFlags set the needs, timeout and retries of a job.
type askFlags struct {
	GPUs      *countFlag  `name:"gpus" short:"g" placeholder:"N" help:"GPUs per job: 2, 2-4, or 0 for none (default: 1)."`
	GPUMemory *memoryFlag `name:"gpu-memory" short:"m" placeholder:"SIZE" help:"Free memory required on each GPU; a bare number is MiB (default: min_memory)."`
	Timeout   *timeFlag   `placeholder:"TIME" help:"Stop a job after this long; a bare number is seconds (default: never)."`
	Retry     retryFlag   `placeholder:"N" help:"Retry a failed job up to N times; forever for no limit (default: 0)."`
}

// given returns l with the flags applied.
func (f *lineFlags) given(l jobspec.Lines) jobspec.Lines {
	l = f.askFlags.given(l)
	l.Setup = cmp.Or(f.Setup, l.Setup)
	return l
}

func (f *askFlags) given(l jobspec.Lines) jobspec.Lines {
	if g := f.GPUs; g != nil {
		l.GPUs = strconv.Itoa(g.min)
		if g.max > g.min {
			l.GPUs += "-" + strconv.Itoa(g.max)
		}
	}
	if f.GPUMemory != nil {
		l.GPUMemory = source.FormatSize(gpu.Bytes(*f.GPUMemory))
	}
	if f.Timeout != nil {
		l.Timeout = source.FormatDuration(time.Duration(*f.Timeout))
	}
	l.Retry = cmp.Or(string(f.Retry), l.Retry)
	return l
}

// stdin is the FILE argument that means standard input.
const stdin = "-"

// listed returns the files that --lines names. For a list from standard input, it returns the
// batch's name.
func (b *batchFlags) listed() ([]string, error) {
	list := slices.Clone(b.List.Lines)
	at := slices.Index(list, stdin)
	switch {
	case at < 0 && b.List.Name != "":
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--name works only with --lines -: a file already has a name"}
	case at < 0:
		return list, nil
	case b.List.Name == "":
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--lines - needs a batch name", Hint: "add --name NAME"}
	case len(list)+len(b.Files)+len(b.JobFile) > 1:
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--lines - cannot be combined with other files", Hint: "remove the other files"}
	case strings.Trim(b.List.Name, nameLetters) != "" || b.List.Name[0] == '.' || b.List.Name[0] == '-':
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--name " + quoted(b.List.Name) + " is not a valid name", Hint: "use letters, digits and . _ -"}
	case host.Exists(b.List.Name):
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--name " + b.List.Name + " is also a file in this folder, and the batch would share the ledger of that file", Hint: "choose another name"}
	}
	list[at] = b.List.Name
	return list, nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// readInput reads the list from standard input, once. A reload gets the same list.
func (a *app) readInput() error {
	if a.input != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(os.Stdin, disk.MaxLines+1))
	switch {
	case err != nil:
		return &batches.Failure{Code: batches.ExitUsage, Text: "cannot read standard input: " + err.Error(), Err: err}
	case len(data) > disk.MaxLines:
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("standard input is longer than %d MiB", disk.MaxLines>>20)}
	case len(bytes.TrimSpace(data)) == 0:
		return &batches.Failure{Code: batches.ExitUsage, Text: "standard input is empty"}
	}
	a.input = data
	return nil
}
