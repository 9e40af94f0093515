package lint

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// DockerFlags are the long options of docker run that take no value.
var DockerFlags = []string{"--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--no-healthcheck", "--oom-kill-disable",
	"--sig-proxy", "--publish-all", "--disable-content-trust", "--quiet", "--help", "--no-hosts", "--replace", "--tls-verify", "--http-proxy"}

// containerTools share the options of docker run.
var containerTools = []string{"docker", "podman", "nerdctl", "nvidia-docker"}

// docker checks the options of docker run and docker exec. All words after the image or the
// container's name are for the container.
func (l *linter) docker(c *syntax.CallExpr, args []arg, maybe bool) {
	if len(args) > 0 && args[0].prefix == "container" {
		args = args[1:]
	}
	if len(args) == 0 || args[0].prefix != "run" && args[0].prefix != "exec" {
		return
	}
	for args = args[1:]; len(args) > 0; {
		opt, ok := dockerOption(args)
		if !ok {
			return
		}
		args = opt.rest
		switch opt.name {
		case "-d", "--detach":
			if v, _ := opt.value.one(); v != "false" {
				l.detachedWork(c, maybe, "remove -d", "docker wait", "docker logs", "docker attach", "podman wait", "podman logs", "podman attach", "nerdctl wait", "nerdctl logs", "nerdctl attach")
			}
		case "--gpus":
			if opt.value.kind == constant {
				l.find(Pinned, maybe, opt.at, fmt.Sprintf("docker %s ignores the GPUs that gpurun assigns to the job", l.short(opt.at)),
					`use --gpus "\"device=$CUDA_VISIBLE_DEVICES\""`)
			}
		case "-e", "--env":
			l.dockerEnv(opt, maybe)
		}
	}
}

// dockerOption parses the first option in args. If short options are combined, opt.rest begins with
// the others.
func dockerOption(args []arg) (opt option, ok bool) {
	a, rest := args[0], args[1:]
	word := a.prefix
	if len(word) < 2 || word[0] != '-' {
		return option{}, false
	}
	name, v, joined := a.cut()
	if strings.HasPrefix(word, "--") {
		if joined || slices.Contains(DockerFlags, name) {
			return option{name, v, a.word, rest}, true
		}
		return valued(name, args)
	}
	name, v = word[:2], a.from(2)
	flag := strings.Contains("ditqP", name[1:])
	switch {
	case strings.HasPrefix(v.prefix, "="): // -d=true
		return option{name, v.from(1), a.word, rest}, true
	case flag && v.prefix != "": // -dp 80:80
		rest = append([]arg{{join(text("-"), v), a.word}}, rest...)
		fallthrough
	case flag:
		return option{name, value{}, a.word, rest}, true
	case v.prefix != "": // -p8080:80
		return option{name, v, a.word, rest}, true
	default:
		return valued(name, args)
	}
}

// dockerEnv checks -e NAME=value. Without a value, -e NAME passes on the job's own value.
func (l *linter) dockerEnv(o option, maybe bool) {
	name, v, ok := o.value.cut()
	if ok && grantedName(name) && v.kind == constant && !v.hides() {
		l.find(Pinned, maybe, o.at, fmt.Sprintf("docker %s pins the container to %s, whichever GPUs gpurun assigns", l.short(o.at), gpuWords(v)),
			fmt.Sprintf("use -e %s to pass the job's own value", name))
	}
}
