package script

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// dockerFlags are the long options of docker run that take no value.
var dockerFlags = []string{"--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--no-healthcheck", "--oom-kill-disable",
	"--sig-proxy", "--publish-all", "--disable-content-trust", "--quiet", "--help", "--no-hosts", "--replace", "--tls-verify", "--http-proxy"}

// docker checks docker run. All words after the image belong to the container.
func (l *linter) docker(c *syntax.CallExpr, args []arg, maybe bool) {
	if len(args) > 0 && args[0].prefix == "container" {
		args = args[1:]
	}
	if len(args) == 0 || args[0].prefix != "run" && args[0].prefix != "exec" {
		return
	}
	for i := 1; i < len(args); {
		opt, next, ok := dockerOption(args[i:])
		if !ok {
			return
		}
		i += next
		switch opt.name {
		case "-d", "--detach":
			if v, _ := opt.value.one(); v != "false" {
				l.away(c, maybe, "remove -d", "docker wait", "docker logs", "docker attach", "podman wait", "podman logs", "podman attach")
			}
		case "--gpus":
			if opt.value.kind == constant {
				l.find(Pinned, maybe, opt.at, fmt.Sprintf("docker %s ignores which GPUs gpurun grants the job", l.short(opt.at)),
					`use --gpus "\"device=$CUDA_VISIBLE_DEVICES\""`)
			}
		case "-e", "--env":
			l.dockerEnv(opt, maybe)
		}
	}
}

type dockerOpt struct {
	name  string
	value value
	at    syntax.Node // the option with its value
}

// dockerOption reads the option that args begin with, and returns how many words it takes.
// Short options may be combined; if -d is among them, it is the one returned.
func dockerOption(args []arg) (dockerOpt, int, bool) {
	a := args[0]
	word := a.prefix
	if len(word) < 2 || word[0] != '-' {
		return dockerOpt{}, 0, false
	}
	if strings.HasPrefix(word, "--") {
		name, rest, joined := strings.Cut(word, "=")
		switch {
		case joined:
			return dockerOpt{name, a.after(name+"=", rest), a.word}, 1, true
		case slices.Contains(dockerFlags, name):
			return dockerOpt{name, value{}, a.word}, 1, true
		}
		return valued(name, args)
	}
	name := ""
	for i := 1; i < len(word); i++ {
		if strings.IndexByte("ditqP", word[i]) >= 0 {
			if word[i] == 'd' {
				name = "-d"
			}
			continue
		}
		if i == len(word)-1 {
			return valued("-"+word[i:], args)
		}
		return dockerOpt{word[:2], a.after(word[:2], word[2:]), a.word}, 1, true // -p8080:80
	}
	return dockerOpt{name, value{}, a.word}, 1, true
}

func valued(name string, args []arg) (dockerOpt, int, bool) {
	if len(args) < 2 {
		return dockerOpt{}, 0, false
	}
	return dockerOpt{name, args[1].value, span{args[0].word, args[1].word}}, 2, true
}

// dockerEnv checks -e NAME=value; -e NAME alone passes on the job's value.
func (l *linter) dockerEnv(o dockerOpt, maybe bool) {
	name, rest, ok := strings.Cut(o.value.prefix, "=")
	if !ok || !grantedName(name) {
		return
	}
	v := o.value.after(name+"=", rest)
	if v.kind == constant && !v.hides() {
		l.find(Pinned, maybe, o.at, fmt.Sprintf("docker %s pins the container to %s, no matter which GPUs gpurun grants the job", l.short(o.at), gpuWords(v)),
			fmt.Sprintf("use -e %s, which passes on the job's own value", name))
	}
}
