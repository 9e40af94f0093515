package configedit

import (
	"reflect"
	"testing"
)

// Values must return what a parser finds in the edited copy, without making the copy.
func TestValuesMatchEditedCopy(t *testing.T) {
	bases := map[string]string{
		"plain.yaml":  "optim: {lr: 0.1}\nlist:\n  - a: 1\n  - a: 2\nseed: 0\ntext: \"x\"\n",
		"anchor.yaml": "optim: &o {lr: 0.1}\nother: *o\nlist: [{a: 1}, {a: 2}]\nseed: 0\ntext: x\n",
		"dotted.yaml": "optim: {lr: 0.1}\noptim.lr: 3\nlist: [{a: 1}, {a: 2}]\nseed: 0\ntext: x\n",
		"json.json":   `{"optim": {"lr": 0.1}, "list": [{"a": 1}, {"a": 2}], "seed": 0, "text": "x"}`,
		"odd.yaml":    "1: {lr: 2}\noptim: {lr: 0.1}\nlist: [{a: 1}, {a: 2}]\nseed:\ntext: |\n  x\n  y\n",
		"bool.yaml":   "true: 1\noptim: {lr: 0.1, <<: {wd: 0}}\n",
		"merge.yaml":  "optim: {lr: 0.1, <<: {wd: 0}}\nfar:\n",
	}
	values := []Value{
		{"1e-5", "!!float"}, {"7", "!!int"}, {"007", "!!int"}, {"0.10", "!!float"}, {"true", "!!bool"}, {"null", "!!null"}, {"", "!!null"}, {"a b", "!!str"},
		{"1e-5", "!!str"}, {"", "!!str"}, {"2024-01-01", "!!str"}, {": x # y", "!!str"}, {"-1", "!!int"}, {".5", "!!float"}, {".nan", "!!float"}, {"0o17", "!!int"}, {"a\r\nb", "!!str"},
	}
	keys := []string{"optim.lr", "list.1.a", "seed", "text", "true", "1.lr", "optim", "+new", "+optim.wd", "optim.wd", "+far.off", "+true", "+seed.deep.er", "list.2.a", "+text.x"}
	for name, content := range bases {
		for _, key := range keys {
			for _, value := range values {
				f := Open(name, []byte(content))
				sets := []Set{changeOf(key, value.Text, value.Tag)}
				data, problems := f.Edit(sets)
				if len(problems) > 0 {
					continue // such an edit is refused, so its values are never used
				}
				want, err := parseValues(name, data)
				if err != nil {
					t.Fatal(err)
				}
				if got, problems := f.Values(sets); len(problems) > 0 || !reflect.DeepEqual(got, want) && value.Text != ".nan" {
					t.Errorf("%s: %s: %v: got %v (%v), want %v", name, key, value, got, problems, want)
				}
			}
		}
	}
}
