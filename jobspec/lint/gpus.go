package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// gpurun assigns a job's GPUs and passes them in CUDA_VISIBLE_DEVICES; inside the job they are
// numbered from 0. This file finds commands that choose GPUs themselves.

const keepVisible = "remove it: gpurun sets CUDA_VISIBLE_DEVICES to the assigned GPUs; to use specific GPUs, set gpu_ids"

// visible checks a value of CUDA_VISIBLE_DEVICES.
func (l *linter) visible(v value, maybe bool, at syntax.Node) {
	switch {
	case v.kind == granted || v.hides():
	case v.kind == unknown:
		l.find(Pinned, true, at, l.short(at)+" may select GPUs that are not assigned to the job", keepVisible)
	default:
		l.find(Pinned, maybe, at, fmt.Sprintf("%s pins the job to %s, whichever GPUs gpurun assigns", l.short(at), gpuWords(v)), keepVisible)
	}
}

// hides reports whether every possible text of v hides all GPUs, as "", -1 and NoDevFiles do. CUDA
// stops reading the list at the first entry that is not a device.
func (v value) hides() bool {
	return len(v.texts) > 0 && !slices.ContainsFunc(v.texts, func(s string) bool {
		first, _, _ := strings.Cut(strings.TrimSpace(s), ",")
		return first != "" && (strings.Trim(first, "0123456789") == "" || strings.HasPrefix(first, "GPU-") || strings.HasPrefix(first, "MIG-") || first == "all")
	})
}

func gpuWords(v value) string {
	var list []string
	for _, t := range v.texts {
		if t != "" && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	switch {
	case len(list) == 0:
		return "GPUs of its choice"
	case len(list) == 1 && !strings.Contains(list[0], ","):
		return "GPU " + list[0]
	case len(list) > 4:
		return fmt.Sprintf("GPUs %s, …", strings.Join(list[:4], ", "))
	}
	return "GPUs " + strings.Join(list, ", ")
}

func (l *linter) unset(c *syntax.CallExpr, args []arg) {
	for _, a := range args {
		if a.prefix == "CUDA_VISIBLE_DEVICES" {
			l.find(Pinned, true, c, l.short(c)+" exposes every GPU to the job, including those not assigned to it", "remove it")
		}
	}
}

var (
	cudaDevice  = regexp.MustCompile(`(?:^|[^A-Za-z0-9_/.-])cuda:(\d{1,4})(?:[^A-Za-z0-9_.-]|$)`)
	gpuOptions  = []string{"--gpu", "--gpus_id", "--gpu_id", "--gpu-id", "--gpuid", "--gpu_ids", "--gpu-ids", "--gpuids", "--gpu_index", "--gpu-index", "-gpu", "-gpu_id", "-gpu_ids"}
	portOptions = []string{"--master_port", "--master-port", "--main_process_port", "--main-process-port"}
)

// devices checks arguments that select a program's GPU.
func (l *linter) devices(args []arg, maybe bool) {
	for _, a := range args {
		if a.host && strings.HasSuffix(a.prefix, "cuda:") {
			l.find(Pinned, true, a.word, l.short(a.word)+" uses the host's GPU numbers, but inside the job GPU numbers start at 0", "use cuda:0")
		}
		most := -1
		for _, m := range cudaDevice.FindAllStringSubmatch(strings.Join(a.texts, "\n\n"), -1) {
			n, _ := strconv.Atoi(m[1])
			most = max(most, n)
		}
		if most >= 0 {
			l.outOfRange(most, maybe, a.word, "cuda:"+strconv.Itoa(most))
		}
	}
	for _, o := range options(args, gpuOptions...) {
		if o.value.host {
			l.find(Pinned, true, o.at, l.short(o.at)+" uses the host's GPU numbers, but inside the job GPU numbers start at 0", "use 0")
			continue
		}
		most := largest(o.value.texts)
		for _, a := range o.rest { // --gpu_ids 0 1 2; --gpu takes only one number
			n := largest(a.texts)
			if n < 0 || most < 0 || !strings.HasSuffix(o.name, "ids") {
				break
			}
			most = max(most, n)
		}
		if most >= 0 {
			l.outOfRange(most, maybe, o.at, fmt.Sprintf("%s %d", o.name, most))
		}
	}
}

// largest returns the largest whole number in lists such as 0,1 or "0 1", or -1 if there is none. It
// ignores a list that contains anything else.
func largest(lists []string) int {
	most := -1
	for _, list := range lists {
		numbers := -1
		for _, word := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", []", r) }) {
			n, err := strconv.Atoi(word)
			if err != nil {
				numbers = -1
				break
			}
			numbers = max(numbers, n)
		}
		most = max(most, numbers)
	}
	return most
}

const numbersFrom0 = "number GPUs from 0 inside the job; to use specific GPUs, set gpu_ids"

// outOfRange reports a GPU number that the job does not have.
func (l *linter) outOfRange(n int, maybe bool, at syntax.Node, what string) {
	if l.job.GPUs < 0 || n < l.job.GPUs {
		return
	}
	text, hint := " is used in a job with gpus: 0", "set gpus: 1, or remove the option"
	switch {
	case l.job.GPUs == 1:
		text, hint = " is out of range: a job with gpus: 1 sees only GPU 0", "use 0: "+numbersFrom0
	case l.job.GPUs > 1:
		text, hint = fmt.Sprintf(" is out of range: a job with gpus: %d sees GPUs 0 to %d", l.job.GPUs, l.job.GPUs-1), numbersFrom0
	}
	l.find(Pinned, maybe, at, what+text, hint)
}

// DeviceOptions are options of launchers that select devices by the host's numbers. Without them, the
// launchers use the job's GPUs.
var DeviceOptions = map[string][]string{"deepspeed": {"--include", "-i"}, "accelerate": {"--gpu_ids", "--gpu-ids"}}

// launcher reports a constant list of devices in a launcher's options.
func (l *linter) launcher(name string, args []arg, maybe bool) {
	for _, o := range options(launcherOptions(args), DeviceOptions[name]...) {
		n := largest(o.value.texts)
		// The function devices reports numbers that are out of range.
		if o.value.kind != constant || name == "accelerate" && (n < 0 || n >= l.job.GPUs) {
			continue
		}
		l.find(Pinned, maybe, o.at, fmt.Sprintf("%s %s pins the job to these GPUs, whichever GPUs gpurun assigns", name, l.short(o.at)),
			fmt.Sprintf("remove it: %s then uses the GPUs in CUDA_VISIBLE_DEVICES", name))
	}
}

// launcherOptions returns the words before the program that a launcher starts. The program's own
// options may have the same names as the launcher's.
func launcherOptions(args []arg) []arg {
	for i, a := range args {
		if a.prefix == "-m" || a.prefix == "--module" || !strings.HasPrefix(a.prefix, "-") && strings.HasSuffix(a.prefix, ".py") {
			return args[:i]
		}
	}
	return args
}

// ports warns about a fixed port, which two jobs would both use.
func (l *linter) ports(args []arg) {
	for _, o := range options(args, portOptions...) {
		l.port(o.value, o.at)
	}
	for _, o := range options(args, "--rdzv_endpoint", "--rdzv-endpoint") {
		if s, ok := o.value.one(); ok {
			if _, port, ok := strings.Cut(s, ":"); ok {
				l.port(text(port), o.at)
			}
		}
	}
}

func (l *linter) port(v value, at syntax.Node) {
	s, ok := v.one()
	if n, err := strconv.Atoi(s); ok && err == nil && n > 0 {
		l.find(FixedPort, true, at, fmt.Sprintf("port %d is fixed, so two jobs on one machine would collide", n), "use {port}, a free port for each attempt (also in MASTER_PORT)")
	}
}
