package cli

import (
	"os/exec"
	"slices"
	"strings"

	"gpurun/jobspec/source"
	"gpurun/runner/batches"
	"gpurun/state/host"
)

// otherWords maps commands of other tools to those of gpurun.
var otherWords = map[string]string{
	"result": "results", "metrics": "results", "scores": "results", "table": "results", "html": "report", "summary": "report", "export": "report", "list": "ls", "ps": "ls", "squeue": "queue", "sreport": "usage", "quota": "usage", "who": "queue", "top": "gpus", "smi": "gpus", "gpu": "gpus", "tail": "log -f", "logs": "log",
	"kill": "stop", "cancel": "stop", "start": "run", "submit": "add", "hold": "pause", "suspend": "pause", "release": "resume", "continue": "resume", "scontrol": "set", "join": "wait", "dry-run": "plan", "validate": "check", "diagnose": "doctor", "lint": "check", "clean": "forget", "reset": "forget",
}

// notACommand returns an error if word, which was given as a job file, looks like a mistyped
// command, even if a file with that name exists. It also returns one if word is neither a command
// nor a file.
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
	return &batches.Failure{Code: batches.ExitUsage, Text: quoted(word) + " is not a gpurun command or a file", Hint: hint}
}

// nearest returns the command that word probably stands for, or "".
func nearest(word string) string {
	word = strings.ToLower(word)
	if w := otherWords[word]; w != "" {
		return w
	}
	return source.Closest(word, shownCommands(), func(c string) int { return 1 + min(len(c)/5, 1) })
}

func quoted(s string) string { return "\"" + s + "\"" }
