package lint

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	pyVisible = regexp.MustCompile(`environ\s*\[\s*["']CUDA_VISIBLE_DEVICES["']\s*\]\s*=\s*["']([^"']*)["']`)
	pyDevice  = regexp.MustCompile(`["']cuda:(\d{1,4})["']|\bset_device\(\s*(\d{1,4})\s*\)`)
)

// checkPython looks for lines of a Python program that choose GPUs. All findings are warnings,
// because a line may never run.
func checkPython(text string, job scriptJob) scriptReport {
	l := &linter{job: job}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || strings.Contains(line, "add_argument") || len(line) > 2000 {
			continue
		}
		l.pythonLine(line, i+1)
	}
	return l.report
}

func (l *linter) pythonLine(line string, n int) {
	found := func(at, format string, args ...any) {
		l.findAt(at, n, Pinned, true, fmt.Sprintf(format, args...), keepVisible)
	}
	if m := pyVisible.FindStringSubmatch(line); m != nil && !text(m[1]).hides() {
		found(m[0], "sets CUDA_VISIBLE_DEVICES to %s, whichever GPUs gpurun assigns", m[1])
	}
	if m := pyDevice.FindStringSubmatch(line); m != nil {
		index := m[1] + m[2]
		if most := largest([]string{index}); l.job.GPUs >= 0 && most >= l.job.GPUs {
			found(m[0], "%s is out of range: a job with gpus: %d numbers its GPUs from 0", m[0], l.job.GPUs)
		}
	}
}
