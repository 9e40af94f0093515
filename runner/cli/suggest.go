package cli

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec/source"
	"gpurun/runner/batches"
	"gpurun/state/host"
)

// otherWords maps commands of other tools to ours.
var otherWords = map[string]string{
	"result": "results", "metrics": "results", "scores": "results", "table": "results", "html": "report", "summary": "report", "export": "report", "list": "ls", "ps": "ls", "squeue": "queue", "sreport": "usage", "quota": "usage", "who": "queue", "top": "gpus", "smi": "gpus", "gpu": "gpus", "tail": "log -f", "logs": "log",
	"kill": "stop", "cancel": "stop", "start": "run", "submit": "add", "hold": "pause", "suspend": "pause", "release": "resume", "continue": "resume", "scontrol": "set", "join": "wait", "dry-run": "plan", "validate": "check", "diagnose": "doctor", "lint": "check", "clean": "forget", "reset": "forget",
}

// notACommand returns an error if word, where a job file belongs, looks like a mistyped
// command: that is never taken for a file, even if a file has that name.
func notACommand(word string) error {
	if word == "" || strings.HasPrefix(word, "__") || strings.HasPrefix(word, "-") || strings.ContainsAny(word, "./") || slices.Contains(shownCommands(), word) {
		return nil
	}
	near := nearest(word)
	switch {
	case near != "":
		f := &batches.Failure{Code: batches.ExitUsage, Text: quoted(word) + " is not a command", Hint: "did you mean gpurun " + near + "?"}
		if host.Exists(word) {
			f.Hint += " To run the file: gpurun ./" + word
		}
		return f
	case host.Exists(word):
		return nil
	}
	hint := "commands: " + strings.Join(shownCommands(), ", ")
	if _, err := exec.LookPath(word); err == nil {
		hint = "to run a program on a GPU: gpurun exec -- " + word + " …"
	}
	return &batches.Failure{Code: batches.ExitUsage, Text: quoted(word) + " is neither a gpurun command nor a file", Hint: hint}
}

// nearest returns the command that word was probably meant to be, or "".
func nearest(word string) string {
	word = strings.ToLower(word)
	if w := otherWords[word]; w != "" {
		return w
	}
	return closest(word, shownCommands(), func(c string) int { return 1 + min(len(c)/5, 1) })
}

// noSuchJob reports that no job of a file matches, and suggests the nearest name, or
// the glob of the names that begin with it.
func noSuchJob(file, glob string, names []string) error {
	names = names[:min(len(names), 20000)] // the distance to a million names is not worth a second
	best := closest(glob, names, func(string) int { return max(1, len(glob)/3) })
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, glob+"-") }) {
		best = "'" + glob + "-*'"
	}
	f := &batches.Failure{Code: batches.ExitUsage, Text: "no job of " + file + " matches " + quoted(glob), Hint: "gpurun plan " + file + " lists the jobs"}
	if best != "" {
		f.Hint = "did you mean " + best + "?"
	} else if host.Exists(glob) {
		f.Hint = "a file has this name: quote globs, e.g. '" + glob[:1] + "*'"
	}
	return f
}

// closest returns the first of the words that differ least from word, if it differs in at
// most so many letters.
func closest(word string, known []string, most func(known string) int) (best string) {
	least := len(word) + 1
	for _, k := range known {
		if d := source.Distance(word, k); d <= most(k) && d < least {
			best, least = k, d
		}
	}
	return best
}

// noFiles refuses a job file in place of jobs: "gpurun stop jobs.yaml" means the batch,
// but would look for a job of that name.
func noFiles(jobs []string) error {
	for _, j := range jobs {
		if ext := filepath.Ext(j); (ext == ".yaml" || ext == ".yml") && host.Exists(j) {
			return &batches.Failure{Code: batches.ExitUsage, Text: quoted(j) + " is a file, not a job", Hint: "give the job file with --file " + j + " and jobs by their names, '*' for all; if the shell expanded a glob, quote it"}
		}
	}
	return nil
}

func quoted(s string) string { return "\"" + s + "\"" }
