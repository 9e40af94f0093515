package jobspec

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestAppendKeepsExistingBytes(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"plain":        {"jobs:\n  - run: a\n", "jobs:\n  - run: a\n  - run: x\n"},
		"no indent":    {"jobs:\n- run: a\n", "jobs:\n- run: a\n- run: x\n"},
		"no newline":   {"jobs:\n  - run: a", "jobs:\n  - run: a\n  - run: x\n"},
		"comments":     {"# top\njobs: # here\n  - run: a # one\n  # two\n# end\n", "# top\njobs: # here\n  - run: a # one\n  # two\n# end\n  - run: x\n"},
		"windows":      {"jobs:\r\n  - run: a\r\n", "jobs:\r\n  - run: a\r\n  - run: x\r\n"},
		"other keys":   {"settings: {}\njobs:\n    -   run: a\n        gpus: 2\n", "settings: {}\njobs:\n    -   run: a\n        gpus: 2\n    - run: x\n"},
		"last in jobs": {"jobs:\n  - run: a\n    needs:\n      - b\n", "jobs:\n  - run: a\n    needs:\n      - b\n  - run: x\n"},
		"not last":     {"jobs:\n  - run: a\nsettings: {}\n", ""},
		"flow":         {"jobs: [{run: a}]\n", ""},
		"empty":        {"jobs: []\n", ""},
		"json":         {`{"jobs": [{"run": "a"}]}`, ""},
		"two":          {"jobs:\n  - run: a\n---\njobs:\n  - run: b\n", ""},
		"anchor":       {"jobs: &all\n  - run: a\n", ""},
	} {
		got, line, err := Append([]byte(c.data), Addition{Run: "x"})
		switch {
		case c.want == "" && !errors.Is(err, ErrNoPlace):
			t.Errorf("%s: got %q, %v, want ErrNoPlace", name, got, err)
		case c.want != "" && (err != nil || string(got) != c.want):
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		case c.want != "" && !strings.Contains(strings.Split(c.want, "\n")[line-1], "x"):
			t.Errorf("%s: the new job is not in line %d", name, line)
		}
	}
	var known *AlreadyThere
	if _, _, err := Append([]byte("jobs:\n  - run: a\n  - run: x\n"), Addition{Run: "x"}); !errors.As(err, &known) || known.Line != 3 {
		t.Errorf("an existing job: got %v, want AlreadyThere in line 3", err)
	}
}

func TestAppendWritesGivenKeys(t *testing.T) {
	j := Addition{Name: "007", GPUs: "2", Timeout: "1h", Needs: []string{"a", "b-*"}, Run: "x"}
	want := "jobs:\n  - run: x\n  - name: \"007\"\n    gpus: 2\n    timeout: 1h\n    needs: [a, b-*]\n    run: x\n"
	got, line, err := Append([]byte("jobs:\n  - run: x\n"), j)
	if string(got) != want || line != 3 || err != nil {
		t.Errorf("got %q, %d, %v", got, line, err)
	}
	var known *AlreadyThere
	if _, _, err := Append(got, j); !errors.As(err, &known) || known.Line != 3 {
		t.Errorf("the same job again: got %v, want AlreadyThere in line 3", err)
	}
	j.Needs = nil
	if _, _, err := Append(got, j); err != nil {
		t.Errorf("the same command with other keys: %v", err)
	}
}

// FuzzAppend checks that Append keeps the existing bytes and adds the requested job.
func FuzzAppend(f *testing.F) {
	f.Add("jobs:\n  - run: a\n", "echo {x} 'b c' # d: e")
	f.Add("jobs:\n- run: |\n    a\n# end", "- \"\n\ttab\\")
	f.Fuzz(func(t *testing.T, data, run string) {
		text, _, err := Append([]byte(data), Addition{Run: OneLine(run)})
		if err != nil {
			return
		}
		if !bytes.HasPrefix(text, []byte(data)) {
			t.Fatalf("%q became %q", data, text)
		}
		var items []map[string]string
		if err := yaml.Unmarshal([]byte(ListItem(Addition{Run: OneLine(run)})), &items); err != nil || len(items) != 1 {
			return // YAML cannot express the command, for example a NUL byte
		}
		if strings.ToValidUTF8(run, "") == run && items[0]["run"] != run {
			t.Fatalf("%q is written as %q and read as %q", run, ListItem(Addition{Run: OneLine(run)}), items[0]["run"])
		}
	})
}
