package jobspec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Bounds of what a start records of a config: more of it is one hash.
const (
	maxTraits     = 200
	maxTraitValue = 60
)

// Traits are what a job does besides its commands and parameters, in a form in which
// two attempts can be compared: "env NAME", "shell" and "work_dir" with a hash,
// since values of the environment are recorded nowhere, and "config model.depth" with
// its value. Run-time variables are left as names.
func (b *Batch) Traits(j *Job) map[string]string {
	t := j.Spec.text
	if t == nil {
		return nil
	}
	traits := map[string]string{}
	v := j.values()
	for _, e := range t.Env {
		traits["env "+e.Name] = shortHash(e.Value.Render(v))
	}
	if t.Shell != nil {
		traits["shell"] = shortHash(fmt.Sprintf("%q", t.Shell))
	}
	if t.WorkDir != nil {
		traits["work_dir"] = shortHash(t.WorkDir.Render(v))
	}
	if t.Config == nil {
		return traits
	}
	v, err := b.plan(j)
	if err != nil {
		return traits
	}
	c, err := b.config(t.Config, v)
	if err != nil {
		return traits
	}
	var root any
	flat := map[string]string{}
	if yaml.Unmarshal(c.Content, &root) == nil {
		flatten(flat, "config", root)
	}
	if len(flat) == 0 || len(flat) > maxTraits {
		flat = map[string]string{"config": shortHash(string(c.Content))}
	}
	for key, value := range flat {
		traits[key] = value
	}
	return traits
}

// flatten names every value below node by its keys: "config model.depth".
func flatten(flat map[string]string, at string, node any) {
	sep := "."
	if at == "config" {
		sep = " "
	}
	switch x := node.(type) {
	case map[string]any:
		for key, value := range x {
			flatten(flat, at+sep+key, value)
		}
		return
	case []any:
		for i, value := range x {
			flatten(flat, at+sep+strconv.Itoa(i), value)
		}
		return
	}
	if text := fmt.Sprint(node); len(text) <= maxTraitValue && len(flat) <= maxTraits {
		flat[at] = text
	} else if len(flat) <= maxTraits {
		flat[at] = shortHash(text)
	}
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
