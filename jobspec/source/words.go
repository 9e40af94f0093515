package source

import (
	"cmp"

	"gopkg.in/yaml.v3"
)

// sameKeys maps keys of other tools to gpurun's.
var sameKeys = map[string]string{
	"command": "run", "cmd": "run",
	"depends_on": "needs", "deps": "needs",
	"retries": "retry",
}

// OwnKey returns gpurun's name for a key.
func OwnKey(key string) string { return cmp.Or(sameKeys[key], key) }

// ForeignTopKeys maps keys that other tools have at the top level of a file to gpurun's.
var ForeignTopKeys = map[string]string{
	"tasks": "jobs", "experiments": "jobs", "runs": "jobs", "steps": "jobs", "commands": "jobs", "job": "jobs", "stages": "jobs",
	"config": "settings", "options": "settings", "global": "settings", "env": "defaults: {env: …}",
}

// TopKeys are the keys at the top level of a file.
var TopKeys = []string{"settings", "defaults", "jobs"}

// HomeSlip warns about a bare ~, which YAML reads as null.
func HomeSlip(s *Source, key string, n *yaml.Node) {
	if key == "work_dir" && IsNull(n) && n.Value == "~" {
		s.Warning(n.Line, n.Column, `for the home folder, write "~", with quotes`, "work_dir: ~ means null in YAML")
	}
}
