package words

import (
	"cmp"
	"fmt"
	"strings"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// Sweep returns a job file that does what a W&B sweep does, as far as one line can; "" if
// root is not a sweep.
func Sweep(root *yaml.Node) string {
	method, how := scalarText(source.Child(root, "method")), "sample: {n: 20, params: {%s}}"
	if method == "grid" {
		how = "matrix: {%s}"
	}
	run, values := "python "+cmp.Or(scalarText(source.Child(root, "program")), "train.py"), ""
	for k, v := range source.Each(source.Child(root, "parameters")) {
		run += fmt.Sprintf(" --%s={%s}", k.Value, k.Value)
		value := func(key string) string { return scalarText(source.Child(v, key)) }
		list := "[" + cmp.Or(value("value"), strings.Trim(inline(source.Child(v, "values")), "[]"), "…") + "]"
		if from, to := value("min"), value("max"); from+to != "" {
			kind := "int "
			if strings.Contains(value("distribution"), "log") {
				kind = "log "
			} else if strings.Contains(from+to, ".") {
				kind = "uniform "
			}
			list = kind + from + ".." + to
		}
		values += ", " + k.Value + ": " + list
	}
	if method == "" || values == "" {
		return ""
	}
	return fmt.Sprintf(`jobs: [{run: %q, `+how+`}]`, run, values[2:])
}
