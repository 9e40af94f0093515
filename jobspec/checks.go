package jobspec

import (
	"bytes"
	"hash/maphash"
)

// checkLogs refuses two jobs that would write one log.
func (l *loader) checkLogs() {
	seed := maphash.MakeSeed()
	owner := map[uint64]int32{}
	told := map[*texts]bool{}
	var v values
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if t.log == nil && t.stdout == nil && t.stderr == nil || told[t] {
			continue
		}
		v = l.values(j, v.params[:0])
		for n, lt := range []*text{t.log, t.stdout, t.stderr} {
			path, ok := l.logPath(j, lt, &v)
			if !ok {
				continue
			}
			h := maphash.String(seed, path)
			other, taken := owner[h]
			if !taken {
				owner[h] = j.id32()
				continue
			}
			if other == j.id32() || told[t] {
				continue
			}
			told[t] = true
			o := &l.batch.Jobs[other]
			l.files[j.File].src.problem(lt.line, lt.col, "put {name} into it", "%s: jobs %q and %q would write one file, %s", []string{"log", "stdout", "stderr"}[n], o.Name, j.Name, path)
		}
	}
}

// checkConfigUse refuses {config} in a job that has none: the command would get
// nothing in its place.
func (p *proto) checkConfigUse(given bool) {
	if given {
		return
	}
	list := []*text{p.log, p.stdout, p.stderr}
	for i := range p.commands {
		list = append(list, &p.commands[i])
	}
	for i := range p.args {
		list = append(list, &p.args[i].value)
	}
	for i := range p.env {
		list = append(list, &p.env[i].value)
	}
	for _, t := range list {
		if t != nil && t.uses(varConfig) {
			l, c := p.src.find(t.line, t.col, "{config")
			hint := "add config: {base: …}, or write {{config}} for the text itself"
			if p.block {
				hint = "write {{config}} for the text itself"
			}
			p.src.problem(l, c, hint, "{config} in a job without config")
		}
	}
}

func (j *Job) id32() int32 { return int32(j.ID) }

// logPath is where a job writes, and false where that cannot clash.
func (l *loader) logPath(j *Job, t *text, v *values) (string, bool) {
	if t == nil || t.uses(varUniID) {
		return "", false
	}
	dir, err := j.Spec.text.dirOf(l.batch.Files[j.File].WorkDir, v)
	if err != nil {
		return "", false
	}
	path, err := absolute(dir, t.render(v))
	return path, err == nil && path != "/dev/null"
}

// checkConfigs refuses two jobs that would write different content to one file.
func (l *loader) checkConfigs() {
	type owner struct {
		id      int
		content []byte
	}
	owners := map[string]owner{}
	told := map[*texts]bool{}
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if t.config == nil || t.config.path == nil || t.config.bad || told[t] || t.config.path.uses(varUniID) {
			continue
		}
		v := l.values(j, nil)
		dir, err := t.dirOf(l.batch.Files[j.File].WorkDir, &v)
		if err != nil {
			continue
		}
		v.workDir = dir
		path, err := absolute(dir, t.config.path.render(&v))
		_, content, problems := l.batch.apply(t.config, &v)
		if err != nil || len(problems) > 0 {
			continue
		}
		o, taken := owners[path]
		if !taken {
			owners[path] = owner{i, content}
			continue
		}
		if !bytes.Equal(o.content, content) {
			told[t] = true
			l.files[j.File].src.problem(t.config.path.line, t.config.path.col, "put {name} into its path", "jobs %q and %q would write different content to %s", l.batch.Jobs[o.id].Name, j.Name, path)
		}
	}
}
