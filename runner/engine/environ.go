package engine

import (
	"slices"
	"strings"
)

// Layered merges environments; later ones override earlier ones.
func Layered(layers ...[]string) (env []string) {
	at := map[string]int{}
	for _, kv := range slices.Concat(layers...) {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			env[i] = kv
			continue
		}
		at[name], env = len(env), append(env, kv)
	}
	return env
}

// Variable returns a variable of an environment, or "".
func Variable(env []string, name string) string {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}
