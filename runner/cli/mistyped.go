package cli

import (
	"os"
	"os/exec"
	"strings"

	"github.com/agnivade/levenshtein"
)

// commands are those of the grammar, to compare mistyped ones with.
var commands = []string{"run", "plan", "check", "status", "log", "stop", "forget", "done", "gpus", "exec", "version", "completion"}

// otherWords maps commands of other tools to ours.
var otherWords = map[string]string{
	"help": "--help", "ls": "status", "list": "status", "ps": "status", "queue": "status", "top": "gpus", "smi": "gpus", "gpu": "gpus", "tail": "log -f", "logs": "log",
	"kill": "stop", "cancel": "stop", "start": "run", "submit": "run", "resume": "run", "retry": "run", "dry-run": "plan", "validate": "check", "lint": "check", "clean": "forget", "reset": "forget",
}

// mistyped refuses a first argument that was meant as a command: it is never taken
// for a file, even if a file has that name.
func mistyped(args []string) error {
	if len(args) == 0 {
		return nil
	}
	return notACommand(args[0])
}

// notACommand returns an error if word, where a job file belongs, looks like a
// mistyped command.
func notACommand(word string) error {
	if word == "" || word == "__complete" || strings.HasPrefix(word, "-") || strings.ContainsAny(word, "./") {
		return nil
	}
	for _, c := range commands {
		if word == c {
			return nil
		}
	}
	near := nearest(word)
	if near == "" {
		if _, err := os.Stat(word); err == nil {
			return nil
		}
		hint := "commands: " + strings.Join(commands, ", ")
		if _, err := exec.LookPath(word); err == nil {
			hint = "to run a program on a GPU: gpurun exec -- " + word + " …"
		}
		return &failure{code: exitUsage, text: quoted(word) + " is neither a gpurun command nor a file", hint: hint}
	}
	f := &failure{code: exitUsage, text: quoted(word) + " is not a command", hint: "did you mean gpurun " + near + "?"}
	if _, err := os.Stat(word); err == nil {
		f.hint += " To run the file: gpurun ./" + word
	}
	return f
}

// nearest returns the command that word was probably meant to be, or "".
func nearest(word string) string {
	word = strings.ToLower(word)
	if w := otherWords[word]; w != "" {
		return w
	}
	best, least := "", 3
	for _, c := range commands {
		limit := 1
		if len(c) > 4 {
			limit = 2
		}
		d := levenshtein.ComputeDistance(word, c)
		if swapped(word, c) {
			d = 1
		}
		if d <= limit && d < least {
			best, least = c, d
		}
	}
	return best
}

// swapped reports whether a and b differ only by two adjacent letters in swapped order.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i+1 < len(a); i++ {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}

func quoted(s string) string { return "\"" + s + "\"" }
