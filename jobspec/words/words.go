// Package words has the keys of a job file.
package words

import (
	"cmp"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// Same are keys of other tools that mean exactly one of ours.
var Same = map[string]string{
	"command": "run", "cmd": "run",
	"depends_on": "needs", "deps": "needs",
	"retries": "retry",
}

// Own returns our word for a key.
func Own(key string) string { return cmp.Or(Same[key], key) }

// ForeignTop are keys that other tools have at the top of a file.
var ForeignTop = map[string]string{
	"tasks": "jobs", "experiments": "jobs", "runs": "jobs", "steps": "jobs", "commands": "jobs", "job": "jobs", "stages": "jobs",
	"config": "settings", "options": "settings", "global": "settings", "env": "defaults: {env: …}",
}

// Top are the keys at the top of a file.
var Top = []string{"settings", "defaults", "jobs"}

// HomeSlip warns about a bare ~, which YAML reads as null.
func HomeSlip(s *source.Source, key string, n *yaml.Node) {
	if key == "work_dir" && source.IsNull(n) && n.Value == "~" {
		s.Warning(n.Line, n.Column, `for the home folder write "~", with quotes`, "work_dir: ~ means null in YAML")
	}
}
