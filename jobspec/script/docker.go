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
	for args = args[1:]; len(args) > 0; {
		opt, next, ok := dockerOption(args)
		if !ok {
			return
		}
		args = args[next:]
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
func dockerOption(args []arg) (opt dockerOpt, words int, ok bool) {
	a := args[0]
	word := a.prefix
	if len(word) < 2 || word[0] != '-' {
		return dockerOpt{}, 0, false
	}
	name, v, joined := a.cut()
	if strings.HasPrefix(word, "--") {
		if joined || slices.Contains(dockerFlags, name) {
			return dockerOpt{name, v, a.word}, 1, true
		}
	} else {
		switch short := strings.TrimLeft(word[1:], "ditqP"); { // what follows those that take no value
		case short == "" && strings.Contains(word, "d"):
			return dockerOpt{"-d", value{}, a.word}, 1, true
		case short == "":
			return dockerOpt{word, value{}, a.word}, 1, true
		case len(short) > 1: // -p8080:80
			return dockerOpt{word[:2], a.from(2), a.word}, 1, true
		default:
			name = "-" + short
		}
	}
	if len(args) < 2 {
		return dockerOpt{}, 0, false
	}
	return dockerOpt{name, args[1].value, span{a.word, args[1].word}}, 2, true
}

// dockerEnv checks -e NAME=value; -e NAME alone passes on the job's value.
func (l *linter) dockerEnv(o dockerOpt, maybe bool) {
	name, v, ok := o.value.cut()
	if ok && grantedName(name) && v.kind == constant && !v.hides() {
		l.find(Pinned, maybe, o.at, fmt.Sprintf("docker %s pins the container to %s, no matter which GPUs gpurun grants the job", l.short(o.at), gpuWords(v)),
			fmt.Sprintf("use -e %s, which passes on the job's own value", name))
	}
}
