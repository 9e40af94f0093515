package disk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"time"

	fastjson "github.com/goccy/go-json"

	"gpurun/state"
)

// A Success is the last success of a key, with what it measured.
type Success struct {
	Key      string            `json:"key"`
	UniID    string            `json:"uni_id"`
	State    state.Phase       `json:"state"`
	Time     time.Time         `json:"time"`
	Metrics  map[string]any    `json:"metrics"`
	Measured map[string]string `json:"measured"`
	LogTo    int64             `json:"log_to_bytes"`
	By       string            `json:"by"`

	From   string `json:"from"` // taken over from the ledger of this job file, with its run's
	Commit string `json:"git_commit"`
	Dirty  bool   `json:"git_dirty"`
	Sim    string `json:"sim"`

	Run     int // index of the run that started it, of those that Successes returns; -1 for none of them
	startAt int64
}

// Successes reads the ledger in a batch's folder: the last success of each key that was not
// forgotten since, whatever has come after it, and all run facts. It decodes only the lines
// that it needs: a batch of 100,000 jobs is read in a fraction of a second. Broken lines
// are passed over. A missing ledger is an empty one.
func Successes(dir string) (last map[string]*Success, runs []state.Fact, err error) {
	r := newReader(filepath.Join(dir, ledgerName))
	f, err := r.open()
	if f == nil || err != nil {
		return nil, nil, err
	}
	defer f.Close()
	type start struct {
		run int
		at  int64
	}
	last, open := map[string]*Success{}, map[string]start{}
	lines := bufio.NewReaderSize(f, 1<<20)
	for at := int64(0); ; {
		text, size, _, err := nextLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, in(dir, err)
		}
		if size == 0 {
			return last, runs, nil
		}
		switch kindOf(text) {
		case state.KindRun:
			var fact state.Fact
			if decode(text, &fact) == nil {
				runs = append(runs, fact)
			}
		case state.KindStart:
			if id := uniIDOf(text); id != "" {
				open[id] = start{len(runs) - 1, at}
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
			end := &Success{Run: len(runs) - 1, startAt: -1}
			if fastjson.Unmarshal(text, end) != nil || end.State != state.Succeeded {
				break
			}
			switch {
			case started:
				end.Run, end.startAt = s.run, s.at
			case end.From != "":
				end.Run, end.startAt = -1, at
			}
			last[end.Key] = end
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

// StartOf returns the start of a success, if the ledger in the batch's folder has it.
func StartOf(dir string, s *Success) (fact state.Fact, ok bool) {
	f, err := newReader(filepath.Join(dir, ledgerName)).open()
	if f == nil || err != nil || s.startAt < 0 {
		return fact, false
	}
	defer f.Close()
	fact, ok = lineAt(f, s.startAt)
	return fact, ok && (fact.Kind == state.KindStart || fact.From != "") && fact.UniID == s.UniID
}
