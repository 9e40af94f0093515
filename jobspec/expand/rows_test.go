package expand

import (
	"fmt"
	"strings"
	"testing"

	"gpurun/jobspec/source"
)

// read returns a table as text, or its problems.
func read(name, data string) string {
	var out source.Report
	s := source.OfRows(name, []byte(data), &out)
	if s == nil {
		return out.Problems[0].Error()
	}
	t := readTable(s)
	if t == nil {
		return out.Problems[0].Error()
	}
	var b strings.Builder
	for _, n := range t.Names {
		b.WriteString(n.Text + " ")
	}
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "/ %d:", row.Line)
		for _, v := range row.Values {
			fmt.Fprintf(&b, " %s%s", v.Text, map[string]string{"!!str": "'", "!!null": "?", "!!bool": "!"}[v.Tag])
		}
	}
	return b.String()
}

func TestTablesAreReadAndChecked(t *testing.T) {
	const swap = "each row is a job and each column a parameter: transpose the file, or let the job read the file"
	var wide strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&wide, "a%d: 1, ", i)
	}
	for _, row := range []struct{ name, file, in, want string }{
		{"csv", "a.csv", "lr,opt\n1e-3,sgd\n0.10,true\n", "lr opt / 2: 1e-3 sgd'/ 3: 0.10 true!"},
		{"csv: spaces, blank rows, BOM and CRLF", "a.csv", "\ufefflr, opt\r\n\r\n 1e-3 , \"a, b \"\r\n,,\r\n0.1,\r\n", "lr opt / 3: 1e-3 a, b '/ 5: 0.1 ?"},
		{"csv: a date and a version are text", "a.csv", "a\n2024-01-02\n1.2.3\n007\n", "a / 2: 2024-01-02'/ 3: 1.2.3'/ 4: 007"},
		{"csv: a value over two lines", "a.csv", "p,x\n\"a\nb\",1\nc,2\n", "p x / 2: a\nb' 1/ 4: c' 2"},
		{"tsv", "a.TSV", "a\tb\n1\t x y \n", "a b / 2: 1 x y'"},
		{"csv: short row", "a.csv", "a,b\n1\n", "a.csv:2:1: this row has 1 value, but the header has 2; quote values that contain a comma, or add commas for missing values"},
		{"csv: long row", "a.csv", "a,b\n1,2,3\n", "a.csv:2:1: this row has 3 values, but the header has 2; quote values that contain a comma, or add commas for missing values"},
		{"csv: semicolons", "a.csv", "a;b\n1;2\n", `a.csv:1:1: the header has only one column: "a;b"; separate values with commas`},
		{"csv: an index", "a.csv", ",a\n0,1\n", "a.csv:1:1: column 1 has no name; give it a name, or leave it out (pandas: to_csv(index=False))"},
		{"csv: open quote", "a.csv", "a,b\né,\"x\ny", "a.csv:3:2: is not valid CSV: extraneous or missing \" in quoted-field; write a quote inside a value as \"\", and the whole value in quotes"},
		{"csv: duplicate row", "a.csv", "a,b\n1,2\n3,4\n1,2\n", "a.csv:4:1: is the same as line 2; remove one; to repeat jobs, add a matrix parameter such as seed: 0..4"},
		{"csv: only a header", "a.csv", "a,b\n", "a.csv: has no rows"},
		{"json lines", "a.jsonl", `{"lr": 1e-3, "opt": "a\/\ud83d\ude00"}` + "\n\n" + `{"opt": null, "lr": 0.10}`, "lr opt / 1: 1e-3 a/😀'/ 3: 0.10 null?"},
		{"json lines: a list", "a.jsonl", `{"lr": [1]}`, `a.jsonl:1:9: "lr" must be a single value, not a list or an object; each line is one object: {"lr": 0.1, "seed": 1}`},
		{"json lines: other key", "a.ndjson", "{\"lr\": 1}\n{\"lt\": 2}", `a.ndjson:2:6: the first row has no "lt"; did you mean "lr"?`},
		{"json lines: missing key", "a.ndjson", "{\"lr\": 1, \"s\": 2}\n{\"lr\": 2}", `a.ndjson:2:1: this row has no "s", unlike the first; for no value, write s: null`},
		{"json lines: truncated", "a.jsonl", `{"lr": 1`, `a.jsonl:1:9: this line is not valid JSON: unexpected end of line; each line is one object: {"lr": 0.1, "seed": 1}`},
		{"json lines: trailing text", "a.jsonl", `{"lr": 1} {"lr": 2}`, `a.jsonl:1:10: unexpected text after the object; each line is one object: {"lr": 0.1, "seed": 1}`},
		{"json lines: duplicate", "a.jsonl", `{"lr": 1, "lr": 2}`, `a.jsonl:1:15: duplicate key "lr"; keep only one`},
		{"json lines: NUL", "a.jsonl", `{"lr": "\u0000"}`, `a.jsonl:1:6: "lr" contains a NUL character, which commands cannot contain; remove it`},
		{"yaml", "a.yaml", "- &a {lr: 1e-3, opt: sgd}\n- {<<: *a, lr: '2'}\n", "lr opt / 1: 1e-3 sgd'/ 2: 2' sgd'"},
		{"json", "a.json", `[{"lr": 0.1}, {"lr": 0.2}]`, "lr / 1: 0.1/ 1: 0.2"},
		{"json: escapes", "a.json", `[{"p": "a\/\ud83d\ude00\\/\\ud83d\\ude00\u00e9"}]`, `p / 1: a/😀\/\ud83d\ude00é'`},
		{"yaml: a mapping", "a.yml", "lr: 1\n", "a.yml:1:1: must be a list of rows, not a mapping; write a list of mappings: - {lr: 0.1, seed: 1}"},
		{"yaml: plain items", "a.yml", "- a\n", `a.yml:1:3: a row must be a mapping (name: value), not the text "a"`},
		{"yaml: nested", "a.yml", "- {a: [1]}\n", `a.yml:1:7: "a" must be a single value, not a list`},
		{"text", "a.txt", "# models\nresnet18\n\n  vit b #1 \n", "line / 2: resnet18'/ 4: vit b #1'"},
		{"text: duplicate line", "models", "a\nb\na", "models:3:1: is the same as line 1; remove one; to repeat jobs, add a matrix parameter such as seed: 0..4"},
		{"csv: wide", "a.csv", strings.Repeat("a,", 100000) + "a\n", "a.csv:1:1: this row has more than 1000 columns; " + swap},
		{"csv: a wide row", "a.csv", "a,b\n" + strings.Repeat("1,", 100000) + "1\n", "a.csv:2:1: this row has more than 1000 columns; " + swap},
		{"json: wide", "a.jsonl", "{" + strings.Repeat(`"a": 1, `, 100000) + "}\n", "a.jsonl:1:1: this row has more than 1000 columns; " + swap},
		{"yaml: wide", "a.yaml", "- {" + wide.String() + "}\n", "a.yaml:1:1: this row has more than 1000 columns; " + swap},
		{"empty", "a.csv", " \n", "a.csv: is empty"},
		{"binary", "a.csv", "a\n\x00", "a.csv:2: is not a text file: it contains a NUL byte; save it as UTF-8 text"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := read(row.file, row.in); got != row.want {
				t.Errorf("got\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

func FuzzTable(f *testing.F) {
	for _, s := range []string{"a, b\n1,\"2\n3\"\n", `{"a": 1e-3, "b": null}` + "\n{\"b\": true, \"a\": \"\\u0000\"}", "- {a: 1}\n- {a: x}\n", "[{\"a\": 1}]", "x\n#y\n"} {
		for _, name := range []string{"a.csv", "a.tsv", "a.jsonl", "a.yaml", "a.txt"} {
			f.Add(name, s)
		}
	}
	f.Fuzz(func(t *testing.T, name, data string) {
		if len(data) > 4096 {
			return
		}
		var out source.Report
		s := source.OfRows(name, []byte(data), &out)
		if s == nil {
			return
		}
		table := readTable(s)
		if table == nil && len(out.Problems) == 0 {
			t.Fatal("neither a table nor a problem")
		}
		for _, p := range out.Problems {
			if p.Line > 2+strings.Count(data, "\n") {
				t.Errorf("%s: the file has no such line", p)
			}
		}
		if table == nil {
			return
		}
		for _, row := range table.Rows {
			if len(row.Values) != len(table.Names) || row.Line < 1 {
				t.Fatalf("row %v does not match the columns %v", row, table.Names)
			}
			for _, v := range row.Values {
				if strings.ContainsRune(v.Text, 0) || v.Tag == "" || v.Tag == "!!timestamp" {
					t.Fatalf("bad value %q", v)
				}
			}
		}
	})
}
