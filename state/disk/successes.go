package disk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	fastjson "github.com/goccy/go-json"

	"gpurun/state"
)

// A Success is the last success of a key, with what it measured.
type Success struct {
	Metrics  // once Decode has read them
	UniID    string
	Measured map[string]string // as in the ledger

	Run            *state.Fact // which started it; empty if the ledger lacks that
	startAt, endAt int64
	metrics        fastjson.RawMessage // until Decode
}

// Metrics are what an attempt has measured, by name: test.acc, if they are nested. Attempts
// that measured the same share their names.
type Metrics struct {
	Names  []string
	Values []any
}

// MetricsOf returns metrics as they stand in the ledger or a result file.
func MetricsOf(all map[string]any) (m Metrics) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m.add(name, all[name])
	}
	return m
}

func (m *Metrics) add(name string, value any) {
	nested, is := value.(map[string]any)
	if !is {
		m.Names, m.Values = append(m.Names, name), append(m.Values, value)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(nested)) {
		m.add(name+"."+key, nested[key])
	}
}

// numbers reads metrics that are nothing but numbers, as most are, without the maps that
// would be most of the work for 100,000 jobs. Names are shared with like if they are the same.
func numbers(text []byte, like []string) (m Metrics, ok bool) {
	if len(text) < 3 {
		return m, false
	}
	m.Names, m.Values = like, make([]any, 0, len(like))
	for field := range bytes.SplitSeq(text[1:len(text)-1], []byte{','}) {
		name, number, named := bytes.Cut(field, []byte(`":`))
		value, err := strconv.ParseFloat(string(number), 64)
		if !named || err != nil || !bytes.HasPrefix(name, []byte{'"'}) || bytes.IndexByte(name, '\\') >= 0 {
			return m, false
		}
		n := len(m.Values)
		m.Values = append(m.Values, value)
		if n >= len(m.Names) || m.Names[n] != string(name[1:]) {
			m.Names = append(slices.Clone(m.Names[:min(n, len(m.Names))]), string(name[1:]))
		}
	}
	m.Names = m.Names[:len(m.Values)]
	return m, true
}

// Successes reads the ledger in a batch's folder: the last success of each key that was not
// forgotten since, whatever has come after it. It decodes only the lines that it needs: a
// batch of 100,000 jobs is read in a fraction of a second. Broken lines are passed over. A
// missing ledger is an empty one. given are the -p values of its runs.
func Successes(dir string) (last map[string]*Success, given []map[string]string, err error) {
	r := newReader(filepath.Join(dir, ledgerName))
	f, err := r.open()
	if f == nil || err != nil {
		return nil, nil, err
	}
	defer f.Close()
	type start struct {
		run *state.Fact
		at  int64
	}
	run := &state.Fact{}
	last, open := map[string]*Success{}, map[string]start{}
	lines := bufio.NewReaderSize(f, 1<<20)
	for at := int64(0); ; {
		text, size, _, err := nextLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, in(dir, err)
		}
		if size == 0 {
			return last, given, nil
		}
		switch kindOf(text) {
		case state.KindRun:
			var fact state.Fact
			if decode(text, &fact) == nil {
				run = &fact
				if !slices.ContainsFunc(given, func(p map[string]string) bool { return maps.Equal(p, fact.Params) }) {
					given = append(given, fact.Params)
				}
			}
		case state.KindStart:
			if id := uniIDOf(text); id != "" {
				open[id] = start{run, at}
			}
		case state.KindForget:
			var fact state.Fact
			if decode(text, &fact) == nil {
				delete(last, fact.Key)
			}
		case state.KindEnd:
			id := uniIDOf(text)
			s, started := open[id]
			delete(open, id)
			if !bytes.Contains(text, []byte(`"state":"succeeded"`)) || len(text) > maxLine {
				break
			}
			var end struct {
				Key      string              `json:"key"`
				UniID    string              `json:"uni_id"`
				State    state.Phase         `json:"state"`
				Metrics  fastjson.RawMessage `json:"metrics"`
				Measured map[string]string   `json:"measured"`
				From     string              `json:"from"` // taken over from the ledger of this job file, with its run's
				Commit   string              `json:"git_commit"`
				Dirty    bool                `json:"git_dirty"`
				Sim      string              `json:"sim"`
			}
			if fastjson.Unmarshal(text, &end) != nil || end.State != state.Succeeded {
				break
			}
			switch {
			case started:
			case end.From != "":
				s = start{&state.Fact{Commit: end.Commit, Dirty: end.Dirty, Sim: end.Sim}, at}
			default:
				s = start{run, -1}
			}
			last[end.Key] = &Success{UniID: end.UniID, Measured: end.Measured, Run: s.run, startAt: s.at, endAt: at, metrics: end.Metrics}
		}
		at += size
	}
}

// kindOf returns the kind of a ledger's line. gpurun writes it first; of any other line it
// is found by decoding.
func kindOf(text []byte) state.Kind {
	if rest, ok := bytes.CutPrefix(text, []byte(`{"kind":"`)); ok {
		if i := bytes.IndexByte(rest, '"'); i >= 0 {
			return state.Kind(rest[:i])
		}
	}
	var f state.Fact
	if len(text) == 0 || decode(text, &f) != nil {
		return ""
	}
	return f.Kind
}

// uniIDOf returns the uni_id in a ledger's line, or "".
func uniIDOf(text []byte) string {
	name := []byte(`"uni_id":"`)
	i := bytes.Index(text, name)
	if i < 0 {
		return ""
	}
	rest := text[i+len(name):]
	if i = bytes.IndexByte(rest, '"'); i < 0 {
		return ""
	}
	return string(rest[:i])
}

// Decode reads the metrics of some successes, any of which may be nil: a part of its own,
// because it is most of the work, and all cores can do it.
func Decode(list []*Success) {
	var names []string
	for _, s := range list {
		if s == nil || s.metrics == nil {
			continue
		}
		var ok bool
		if s.Metrics, ok = numbers(s.metrics, names); ok {
			names = s.Names
		} else {
			var all map[string]any
			_ = fastjson.Unmarshal(s.metrics, &all)
			s.Metrics = MetricsOf(all)
		}
		s.metrics = nil
	}
}

// Lines returns the lines of a success in the ledger of the batch's folder: its start, whose
// kind is "" if the ledger lacks it, and its end, which are one if it was taken over.
func (s *Success) Lines(dir string) (start, end state.Fact) {
	f, err := newReader(filepath.Join(dir, ledgerName)).open()
	if f == nil || err != nil {
		return start, end
	}
	defer f.Close()
	if s.startAt >= 0 {
		start, _ = lineAt(f, s.startAt)
	}
	end, _ = lineAt(f, s.endAt)
	for _, x := range []*state.Fact{&start, &end} {
		if x.UniID != s.UniID { // somebody has changed the ledger
			*x = state.Fact{}
		}
	}
	return start, end
}
