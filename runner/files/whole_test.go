package files

import (
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// indexed is a history whose index shows one success. It counts requests for the success's record.
type indexed struct {
	ended time.Time
	asked *int
}

func (x indexed) Find(string) *state.Record   { *x.asked++; return nil }
func (indexed) Fact(int64) (state.Fact, bool) { return state.Fact{}, false }
func (x indexed) Plain([16]byte) state.Plain  { return state.Plain(x.ended.UnixNano()) }
func (indexed) All() iter.Seq[*state.Record]  { return func(func(*state.Record) bool) {} }
func (indexed) Len() int                      { return 1 }
func (indexed) Close() error                  { return nil }

// Evidence reads a record only if outputs or logs have changed since the success, or if a path
// depends on the record.
func TestEvidenceReadsFewRecords(t *testing.T) {
	for name, c := range map[string]struct {
		job   string
		files []string
		late  string // the one of these that was written after the end; "" for none
		asked int    // number of records read
	}{
		"outputs exist":              {"outputs: [a, b]", []string{"a", "b"}, "", 0},
		"a folder exists":            {"outputs: [d]", []string{"d/x"}, "d/x", 0},
		"one missing":                {"outputs: [a, b]", []string{"a"}, "", 1},
		"one written later":          {"outputs: [a, b]", []string{"a", "b"}, "b", 1},
		"a pattern":                  {"outputs: ['a*']", []string{"a1"}, "", 1},
		"named by uni_id":            {"log: 'l{uni_id}'", []string{"l"}, "", 1},
		"named by attempt":           {"log: 'l{attempt}'", []string{"l", "l0", "l1"}, "", 1},
		"named by GPU":               {"log: 'l{gpu}'", []string{"l", "l0"}, "", 1},
		"inputs":                     {"outputs: [a], inputs: [i]", []string{"a", "i"}, "", 1},
		"log exists, written later":  {"log: l", []string{"l"}, "l", 0},
		"log missing":                {"log: l", nil, "", 1},
		"outputs exist, log missing": {"outputs: [a], log: l", []string{"a"}, "", 0},
		"nothing declared":           {"gpus: 0", nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ended, asked := t.TempDir(), time.Now().Add(-time.Hour), 0
			write(t, dir+"/jobs.yaml", "jobs: [{name: j, run: j, "+c.job+"}]")
			b, err := jobspec.Load([]string{dir + "/jobs.yaml"}, jobspec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range c.files {
				at := ended
				if f == c.late {
					at = ended.Add(time.Second)
				}
				path := filepath.Join(dir, f)
				write(t, path, "x")
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			h := state.NewHistory()
			h.SetBase(0, indexed{ended, &asked}, 0)
			if got := Evidence(b, h, sched.Options{}); len(got) > 0 || asked != c.asked {
				t.Errorf("read %d records, want %d; got evidence %v, want none", asked, c.asked, got)
			}
		})
	}
}
