package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// repeatNames are names of parameters that only number repetitions.
var repeatNames = []string{"run", "rep", "trial", "worker", "i"}

// unused reports parameters that change only the names of jobs. If other parameters distinguish the
// jobs anyway, the parameter may be a label. unused then only warns or, if a name or path contains
// the parameter, stays silent. Not every job has to use the parameters in defaults.
func (j *jobChecker) unused() {
	m := j.Matrix
	if len(m.Always)+len(m.Partial) == 0 || j.allows(j.Job.Job, Unused) {
		return
	}
	reached, named := j.uses()
	for _, name := range repeatNames {
		reached[name] = true
	}
	inName := map[string]bool{}
	j.mark(inName, j.Name)
	var idle []string
	for _, name := range slices.Concat(m.Always, m.Partial) {
		points := m.Points(name)
		if reached[name] || named[name] && indistinguishable(points, name, reached) == nil || len(points) < 2 && source.Child(j.Params, name) == nil {
			continue
		}
		if j.readByScript(name) || inName[name] && j.readsByName() {
			reached[name] = true
		} else {
			idle = append(idle, name)
		}
	}
	for _, name := range idle { // reached is complete only now
		if same := indistinguishable(m.Points(name), name, reached); same != nil || !named[name] {
			j.unusedParam(name, same, named[name])
		}
	}
}

// indistinguishable returns two values of a parameter that make no difference to the command; nil
// if there are none.
func indistinguishable(points [][]*expand.Param, name string, reached map[string]bool) []string {
	first := map[string]string{} // first value, by the other values that reach the command
	for _, point := range points {
		value, rest := "", ""
		for _, p := range point {
			if p.Name == name {
				value = p.Text
			} else if reached[p.Name] {
				rest += fmt.Sprintf("%s=%q ", p.Name, p.Text)
			}
		}
		if other, ok := first[rest]; !ok {
			first[rest] = value
		} else if other != value {
			return []string{other, value}
		}
	}
	return nil
}

func (j *jobChecker) unusedParam(name string, same []string, named bool) {
	line, col := j.Matrix.At(name)
	text := fmt.Sprintf("parameter %q is never passed to the command", name)
	if named {
		text = fmt.Sprintf("parameter %q is used only in names and paths and never passed to the command", name)
	}
	if same != nil {
		text += fmt.Sprintf(": values %s and %s make identical jobs", shown(name, same[0]), shown(name, same[1]))
	}
	j.find(source.Problem{Lint: Unused, Line: line, Col: col, Text: text,
		Hint: fmt.Sprintf("use {%s} in run or args, or read $%s in the program", name, expand.ParamEnv(name))}, same == nil)
}

// uses returns the parameters that the job uses. reached holds those that affect what it runs, such
// as those in commands, the work dir or resources; named holds those in all other texts.
func (j *jobChecker) uses() (reached, named map[string]bool) {
	reached, named = map[string]bool{}, map[string]bool{}
	j.mark(reached, slices.Concat(j.Run(), j.Inputs, j.Config.Texts(), []*expand.Text{j.WorkDir})...)
	j.mark(named, slices.Concat(j.Logs(), j.Outputs, j.Needs, []*expand.Text{j.Name, j.Queue})...)
	for _, m := range j.Metrics {
		j.mark(named, m.File)
	}
	for _, r := range j.Resources {
		if r.Key == "desc" || r.Key == "tags" {
			j.mark(named, r.Texts...)
		} else {
			j.mark(reached, r.Texts...)
		}
	}
	return reached, named
}

// mark records the parameters in texts, and the parameters that those refer to.
func (j *jobChecker) mark(used map[string]bool, texts ...*expand.Text) {
	for _, t := range texts {
		if t == nil {
			continue
		}
		for _, g := range t.Segs {
			if g.Kind == expand.VarParam {
				j.markParam(used, g.Param)
			}
		}
		j.markEnvironment(used, t.Raw)
	}
}

func (j *jobChecker) markParam(used map[string]bool, name string) {
	if used[name] {
		return
	}
	used[name] = true
	j.mark(used, j.Matrix.Made(name)...)
}

var paramInEnv = regexp.MustCompile(`GPURUN_PARAM_[A-Z0-9_]*`)

// markEnvironment records the parameters that a command reads from its environment. A command that
// iterates over GPURUN_PARAM_* may use any of them.
func (j *jobChecker) markEnvironment(used map[string]bool, raw string) {
	for _, env := range paramInEnv.FindAllString(raw, -1) {
		for _, name := range slices.Concat(j.Matrix.Always, j.Matrix.Partial) {
			if env == "GPURUN_PARAM_" || env == expand.ParamEnv(name) {
				j.markParam(used, name)
			}
		}
	}
}

// readByScript reports whether a file that the job runs reads the parameter from its environment.
func (j *jobChecker) readByScript(name string) bool {
	if j.searches++; j.searches > maxSearches {
		return false
	}
	used := map[string]bool{}
	for _, c := range j.Commands {
		for _, file := range checkScript(c.Raw, scriptJob{}).Scripts {
			j.markEnvironment(used, j.program(file).text)
		}
	}
	return used[name]
}

// readsByName reports whether a command uses the job's name to refer to an existing file, as in
// --config configs/{name}.yaml. If so, every parameter in the name is used. A path to create, as in
// --out ckpt/{name}.pt, does not count, because that would hide unused parameters.
func (j *jobChecker) readsByName() bool {
	v := j.Matrix.Values(0, j.First)
	return j.runs(func(t *expand.Text) bool {
		return t.Uses(expand.VarName) && slices.ContainsFunc(strings.FieldsFunc(t.Render(v), wordBreak), func(word string) bool {
			if strings.HasPrefix(word, "-") {
				_, word, _ = strings.Cut(word, "=")
			}
			path, err := expand.Absolute(j.Base, word)
			return err == nil && strings.Contains(word, v.Name) && j.exists(path)
		})
	})
}

// wordBreak reports whether a character separates or quotes words.
func wordBreak(r rune) bool { return strings.ContainsRune(" \t\n\"';", r) }
