package jobspec

import (
	"fmt"
	"slices"
	"strconv"

	"gpurun/jobspec/source"
)

// bounds refuses min_gpus above max_gpus, wherever each was set.
func (r *settingsReader) bounds() {
	low, haveLow := r.given["min_gpus"]
	high, haveHigh := r.given["max_gpus"]
	if !haveLow || !haveHigh {
		return
	}
	least, _ := strconv.Atoi(low.text) // both were parsed before
	most, _ := strconv.Atoi(high.text)
	if least <= most {
		return
	}
	at := low
	if low.line == 0 && high.line > 0 {
		at = high // given a flag and a line of a file, report the line
	}
	r.out.Add(Problem{File: at.file, Line: at.line, Col: at.col,
		Text: fmt.Sprintf("min_gpus %d (%s) is more than max_gpus %d (%s)", least, low.source(), most, high.source())})
}

// configUse refuses a --config that nothing reads: it holds the settings of block
// files. A missing file is a mistake in any case.
func (l *loader) configUse() {
	if l.opts.Config == "" || len(l.files) == 0 || slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.isBlocks }) {
		return
	}
	if _, err := source.ReadRegular(l.opts.Config); err != nil {
		l.out.Add(Problem{File: l.opts.Config, Text: err.Error()})
		return
	}
	l.out.Add(Problem{File: "--config", Text: "is for block files, and " + l.files[0].src.Path + " is not one", Hint: "write settings: in the job file, or use flags"})
}
