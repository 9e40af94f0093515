package configedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func changeOf(key, value, tag string) Set {
	add := strings.HasPrefix(key, "+")
	return Set{Path: strings.Split(strings.TrimPrefix(key, "+"), "."), Add: add, Value: Value{Text: value, Tag: tag}, Line: 7, Col: 3}
}

func TestEditChangesOnlyTheNamedValue(t *testing.T) {
	for _, tt := range []struct{ name, file, key, value, tag, want string }{
		{"plain", "# head\na: 1 # one\nb:  é x # two\n", "b", "new", "!!str", "# head\na: 1 # one\nb:  new # two\n"},
		{"float for YAML 1.1", "lr: 0.1\n", "lr", "1e-5", "!!float", "lr: 1.0e-05\n"},
		{"as spelled", "lr: 0.1\n", "lr", "0.10", "!!float", "lr: 0.10\n"},
		{"padded, no octal", "seed: 1\n", "seed", "010", "!!int", "seed: 10\n"},
		{"padded, no float", "seed: 1\n", "seed", "008", "!!float", "seed: 8\n"},
		{"padded, of a range", "seed: 1\n", "seed", "-08", "!!int", "seed: -8\n"},
		{"nothing but zeros", "seed: 1\n", "seed", "000", "!!int", "seed: 0\n"},
		{"octal", "seed: 1\n", "seed", "0o17", "!!int", "seed: 15\n"},
		{"text of digits", "seed: 1\n", "seed", "010", "!!str", "seed: \"010\"\n"},
		{"double quoted", "a: \"x # \\\" y\"  # c\n", "a", "it's \"q\"", "!!str", "a: \"it's \\\"q\\\"\"  # c\n"},
		{"single quoted", "a: 'it''s'\nb: 2\n", "a", "o'k", "!!str", "a: 'o''k'\nb: 2\n"},
		{"a number for a quoted number", "a: '1'\n", "a", "2", "!!int", "a: 2\n"},
		{"text that looks like a number", "a: 1\n", "a", "007", "!!str", "a: \"007\"\n"},
		{"text that is a boolean in YAML 1.1", "a: b\n", "a", "no", "!!str", "a: \"no\"\n"},
		{"null", "a: 1\n", "a", "", "!!null", "a: null\n"},
		{"nested", "o:\n  p:\n    q: 1 # x\n  r: 2\n", "o.p.q", "5", "!!int", "o:\n  p:\n    q: 5 # x\n  r: 2\n"},
		{"dots in the key", "o.p: 1\n", "o.p", "5", "!!int", "o.p: 5\n"},
		{"element of a list", "a:\n- 1\n- {b: 2}\n", "a.1.b", "5", "!!int", "a:\n- 1\n- {b: 5}\n"},
		{"flow", "a: {b: 1, c: [1, 2], d: 3}\n", "a.c.0", "9", "!!int", "a: {b: 1, c: [9, 2], d: 3}\n"},
		{"empty", "a:   # none\nb: 1\n", "a", "x", "!!str", "a: x   # none\nb: 1\n"},
		{"empty in flow", "{a: , b, c: 1}\n", "a", "1", "!!int", "{a: 1, b, c: 1}\n"},
		{"no colon in flow", "{a: , b, c: 1}\n", "b", "1", "!!int", "{a: , b: 1, c: 1}\n"},
		{"empty element", "a:\n  -\n  - 2\n", "a.0", "1", "!!int", "a:\n  - 1\n  - 2\n"},
		{"over lines", "a: one\n  two\n\n  three # c\nb: 1\n", "a", "x", "!!str", "a: x # c\nb: 1\n"},
		{"quoted over lines", "a: \"one\n  two\"\nb: 1\n", "a", "x", "!!str", "a: \"x\"\nb: 1\n"},
		{"literal", "a: |- # why\n  one\n   two\n\nb: 1\n", "a", "x", "!!str", "a: x # why\n\nb: 1\n"},
		{"folded, nested, last", "o:\n  a: >\n    one\n\n    two\n", "o.a", "x", "!!str", "o:\n  a: x\n"},
		{"literal with an indicator", "a: |2\n    one\n  two\n# c\nb: 1\n", "a", "x", "!!str", "a: x\n# c\nb: 1\n"},
		{"lines as a value", "a: x\n", "a", "1\n2", "!!str", "a: \"1\\n2\"\n"},
		{"CRLF", "a: 1\r\nb: |\r\n  x\r\nc: 3\r\n", "b", "2", "!!int", "a: 1\r\nb: 2\r\nc: 3\r\n"},
		{"BOM", "\ufeffa: 1\n", "a", "2", "!!int", "\ufeffa: 2\n"},
		{"line separator", "a: \"x\u2028  y\"\nb: 1\n", "b", "2", "!!int", "a: \"x\u2028  y\"\nb: 2\n"},
		{"unused anchor", "a: &x 1\n", "a", "2", "!!int", "a: &x 2\n"},
		{"alias", "a: &x 1\nb: *x\n", "b", "2", "!!int", "a: &x 1\nb: 2\n"},
		{"tag", "a: !!str 1\nb: 2\n", "a", "2", "!!int", "a: 2\nb: 2\n"},
		{"value on the next line", "a: # c\n  1\n", "a", "2", "!!int", "a: # c\n  2\n"},
		{"through a merge", "d: &d\n  x: 1\ne:\n  <<: *d\n  y: 2\n", "e.x", "9", "!!int", "d: &d\n  x: 1\ne:\n  <<: *d\n  y: 2\n  x: 9\n"},
		{"below an anchor", "a: &x {c: 1}\nb: *x\n", "a.c", "2", "!!int", "a: &x {c: 2}\nb: *x\n"},
		{"merge without an anchor", "<<: {a: 1}\nb: 2\n", "a", "5", "!!int", "<<: {a: 1}\nb: 2\na: 5\n"},
		{"key that is a number", "1: x\nb: 2\n", "1", "5", "!!int", "1: 5\nb: 2\n"},
		{"beside a number", "1: x\nb: {c: 2}\n", "b.c", "5", "!!int", "1: x\nb: {c: 5}\n"},
		{"invalid value replaced", "a: !!int x\nb: 2\n", "a", "5", "!!int", "a: 5\nb: 2\n"},
		{"add", "a: 1 # c\nb: 2 # d\n", "+c", "3", "!!int", "a: 1 # c\nb: 2 # d\nc: 3\n"},
		{"add, no newline at the end", "a:\n  b: 'x'", "+a.c", "3", "!!int", "a:\n  b: 'x'\n  c: 3"},
		{"add beside a list", "a:\n  - 1\nb:\n  - 2\n", "+c.d", "3", "!!int", "a:\n  - 1\nc: {d: 3}\nb:\n  - 2\n"},
		{"add in flow", "a: {}\n", "+a.b", "3", "!!int", "a: {b: 3}\n"},
		{"add below an empty value", "a:\n", "+a.b", "3", "!!int", "a: {b: 3}\n"},
		{"add to an empty file", "# c\n", "+a", "3", "!!int", "# c\na: 3\n"},
		{"add an existing key", "a: 1\n", "+a", "3", "!!int", "a: 3\n"},
	} {
		got, problems := Open("f.yaml", []byte(tt.file)).Edit([]Set{changeOf(tt.key, tt.value, tt.tag)})
		if len(problems) > 0 || string(got) != tt.want {
			t.Errorf("%s: got %q, %v\nwant %q", tt.name, got, problems, tt.want)
		}
		sameValues(t, "f.yaml", tt.file, got, changeOf(tt.key, tt.value, tt.tag))
	}
}

// sameValues checks that Values returns the values in the edited file.
func sameValues(t *testing.T, name, file string, edited []byte, sets ...Set) {
	t.Helper()
	want, err := parseValues(name, edited)
	if got, problems := Open(name, []byte(file)).Values(sets); err != nil || len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%q became %q, %v: got the values %v, %v", file, edited, err, got, problems)
	}
}

func TestEditJSONChangesOnlyTheNamedValue(t *testing.T) {
	base := "{\n\t\"a\": {\"b\" : 1, \"c\": [1, \"x\\u00e9\"]},\n\t\"d\": null\n}\n"
	for _, tt := range []struct{ name, key, value, tag, want string }{
		{"number", "a.b", "1e-5", "!!float", strings.Replace(base, `: 1,`, `: 1e-5,`, 1)},
		{"number that JSON spells differently", "a.b", ".5", "!!float", strings.Replace(base, `: 1,`, `: 0.5,`, 1)},
		{"octal-looking", "a.b", "0x10", "!!int", strings.Replace(base, `: 1,`, `: 16,`, 1)},
		{"padded", "a.b", "010", "!!int", strings.Replace(base, `: 1,`, `: 10,`, 1)},
		{"padded, no float", "a.b", "08", "!!float", strings.Replace(base, `: 1,`, `: 8,`, 1)},
		{"text in a list", "a.c.1", "é\"", "!!str", strings.Replace(base, `"x\u00e9"`, `"é\""`, 1)},
		{"null", "d", "true", "!!bool", strings.Replace(base, "null", "true", 1)},
		{"add", "+e", "x", "!!str", strings.Replace(base, "null", "null,\n\t\"e\": \"x\"", 1)},
		{"add below null", "+d.e", "2", "!!int", strings.Replace(base, "null", `{"e": 2}`, 1)},
	} {
		got, problems := Open("F.JSON", []byte(base)).Edit([]Set{changeOf(tt.key, tt.value, tt.tag)})
		if len(problems) > 0 || string(got) != tt.want {
			t.Errorf("%s: got %q, %v\nwant %q", tt.name, got, problems, tt.want)
		}
		sameValues(t, "F.JSON", base, got, changeOf(tt.key, tt.value, tt.tag))
	}
}

func TestEditAppliesSeveralChanges(t *testing.T) {
	got, problems := Open("f.yaml", []byte("b: 2\na: {x: 1}\n")).Edit([]Set{
		changeOf("+k.m", "1", "!!int"), changeOf("a.x", "longer", "!!str"), changeOf("+k.o", "2", "!!int"), changeOf("b", "3", "!!int"),
	})
	if want := "b: 3\nk: {o: 2, m: 1}\na: {x: longer}\n"; len(problems) > 0 || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, problems, want)
	}
}

func TestImpossibleEditsAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, file, key, want string }{
		{"misspelled key", "optim:\n  lr: 1\n", "optim.lrr", `config f.yaml: no key "optim.lrr"; did you mean "optim.lr"?`},
		{"unknown key", "a: 1\n", "wholly", `config f.yaml: no key "wholly"; to add it, write "+wholly"`},
		{"a mapping", "a: {b: 1}\n", "a", `config f.yaml: "a" is not a single value; set its values one by one`},
		{"below a value", "a: 1\n", "a.b", `config f.yaml: "a" is a value, not a mapping, so it has no "b"`},
		{"shared value", "a: &x 1\nb: *x\n", "a", `config f.yaml: "a" has the anchor &x, which line 2 also uses; replace the alias on that line with its value`},
		{"shared mapping", "a: &x {c: 1}\nb: *x\n", "b.c", `config f.yaml: "b" is the alias *x: setting it would change other values too`},
		{"duplicate key", "a: 1\na: 2\n", "a", `config f.yaml: duplicate key "a"; keep only one`},
	} {
		_, problems := Open("f.yaml", []byte(tt.file)).Edit([]Set{changeOf(tt.key, "5", "!!int")})
		if len(problems) != 1 || problems[0].Line != 7 || strings.TrimSuffix(problems[0].Text+"; "+problems[0].Hint, "; ") != tt.want {
			t.Errorf("%s: got %v\nwant %s", tt.name, problems, tt.want)
		}
	}
	if _, problems := Open("f.yaml", []byte("a: [\n")).Edit([]Set{changeOf("a", "5", "!!int")}); len(problems) != 1 {
		t.Errorf("broken YAML: got %v", problems)
	}
	if _, problems := Open("f.yaml", []byte("a: 1\n")).Edit([]Set{changeOf("a", "5", "!!int"), changeOf("a", "6", "!!int")}); len(problems) != 1 {
		t.Errorf("set twice: got %v", problems)
	}
}

func TestValuesComparesContentNotSpelling(t *testing.T) {
	same := [][2]string{
		{"a: 1 # c\nb: 'x'\n", "b: x\na: 1\n"},
		{"a: &x {c: 1}\nb: *x\n", "{a: {c: 1}, b: {c: 1}}"},
		{"lr: 1e-5\n", "lr: 1.0e-05\n"},
	}
	for _, s := range same {
		if a, b := valuesText(t, "f.yaml", s[0]), valuesText(t, "f.yaml", s[1]); a != b {
			t.Errorf("%q and %q: got %s and %s", s[0], s[1], a, b)
		}
	}
	differ := [][2]string{{"a: 1", "a: '1'"}, {"a: .nan", "a: nan"}, {"1: x", "'1': x"}, {"a: 1", "a: 1\n---\nb: 1"}}
	for _, s := range differ {
		if a, b := valuesText(t, "f.yaml", s[0]), valuesText(t, "f.yaml", s[1]); a == b {
			t.Errorf("%q and %q: both have the values %s", s[0], s[1], a)
		}
	}
	if got := valuesText(t, "f.json", `{"b": 1.50, "a": [1, null]}`); got != `{"a":[1,null],"b":1.5}` {
		t.Errorf("got %s", got)
	}
}

func valuesText(t *testing.T, name, data string) string {
	t.Helper()
	v, problems := Open(name, []byte(data)).Values(nil)
	if len(problems) > 0 {
		return problems[0].Text
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// parseValues parses a config file with the plain parser of its format. It returns several YAML
// documents as a slice.
func parseValues(name string, data []byte) (values any, err error) {
	defer func() { // the YAML parser may panic on malformed input
		if r := recover(); r != nil {
			values, err = nil, fmt.Errorf("yaml: %v", r)
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if strings.HasSuffix(strings.ToLower(name), ".json") {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&values); err != nil {
			return nil, err
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("unexpected data after the JSON value")
		}
		return plainValues(values), nil
	}
	var documents []any
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, plainValues(v))
	}
	switch len(documents) {
	case 0:
		return nil, nil
	case 1:
		return documents[0], nil
	}
	return documents, nil
}

// FuzzEditConfig checks that an edit changes the named value and no other value in the file.
func FuzzEditConfig(f *testing.F) {
	for _, seed := range []string{
		"a: 1\nb: 2\n", "b: {a: }\na: |\n  x\n", "a: &x !!str 1\nb: 'c'\n", "{\"a\": [1, null]}", "a:\r\n  b\r\nc: >-\r\n d\r\n", "? a\n: b\n", "a: \"\\\n x\"\n", "- a: 1\n",
	} {
		f.Add(seed, "a", "new", false)
		f.Add(seed, "b", "1e-5", true)
	}
	f.Fuzz(func(t *testing.T, file, key, value string, number bool) {
		if key == "" {
			return
		}
		tag, name := "!!str", "f.yaml"
		if number {
			tag, value = "!!float", "1e-5"
		}
		if strings.HasPrefix(file, "{\"") {
			name = "f.json"
		}
		before, err := parseValues(name, []byte(file))
		if err != nil {
			return
		}
		set := Set{Path: []string{key}, Value: Value{Text: value, Tag: tag}}
		got, problems := Open(name, []byte(file)).Edit([]Set{set})
		top, ok := before.(map[string]any)
		if _, text := top[key]; len(problems) > 0 || !ok || !text {
			return
		}
		after, err := parseValues(name, got)
		if err != nil {
			t.Fatalf("%q became %q: %v", file, got, err)
		}
		if values, problems := Open(name, []byte(file)).Values([]Set{set}); len(problems) > 0 || !reflect.DeepEqual(values, after) {
			t.Fatalf("%q became %q: got the values %v, want %v", file, got, values, after)
		}
		changed, ok := after.(map[string]any)
		if !ok {
			t.Fatalf("%q became %q", file, got)
		}
		if want := any(value); !number && changed[key] != want && strings.ToValidUTF8(value, "\ufffd") == value {
			t.Fatalf("%q became %q: got %v, want %q", file, got, changed[key], value)
		}
		delete(top, key)
		delete(changed, key)
		if !reflect.DeepEqual(changed, top) {
			t.Fatalf("%q became %q: got %v, want %v", file, got, changed, top)
		}
	})
}
