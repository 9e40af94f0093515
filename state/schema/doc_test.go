package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the reference in docs/reference/json.md")

const (
	reference = "../../docs/reference/json.md"
	beginMark = "<!-- The rest is made from the types of state/schema: go test ./state/schema -update -->\n"
)

func TestReferenceMatchesTypes(t *testing.T) {
	doc, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(doc), beginMark)
	if !ok {
		t.Fatalf("%s lacks the line %q", reference, beginMark)
	}
	want := head + beginMark + describe(t)
	if *update {
		if err := os.WriteFile(reference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(doc) != want {
		t.Errorf("%s does not match the types (run go test ./state/schema -update)", reference)
	}
}

func describe(t *testing.T) string {
	var out strings.Builder
	for _, path := range []string{"schema.go", "live.go", "line.go", "../phase.go", "wait.go", "gpus.go", "records.go", "report.go", "web.go", "outcome.go", "../fact.go", "../cause.go", "../gpuuse.go", "../../gpu/words.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || len(g.Specs) == 0 {
				continue
			}
			switch s := g.Specs[0].(type) {
			case *ast.TypeSpec:
				if fields, ok := s.Type.(*ast.StructType); ok && (!strings.Contains(path, "/") || slices.Contains(factTypes, s.Name.Name)) {
					fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| | | |\n|---|---|---|\n", s.Name.Name, sentence(g.Doc.Text(), s.Name.Name))
					describeFields(&out, fields)
				}
			case *ast.ValueSpec:
				if id, ok := s.Type.(*ast.Ident); ok && g.Tok == token.CONST && len(s.Values) == 1 {
					fmt.Fprintf(&out, "\n### Values of %s\n\n| | |\n|---|---|\n", names[id.Name])
					for _, s := range g.Specs {
						v := s.(*ast.ValueSpec)
						fmt.Fprintf(&out, "| `%s` | %s |\n", strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`), comment(v.Comment))
					}
				}
			}
		}
	}
	return out.String()
}

// factTypes are the types of package state that occur in events.
var factTypes = []string{"Fact", "Input", "Loss", "GPUUse"}

// names maps types of codes to their names in the reference.
var names = map[string]string{
	"RunPhase": "phase", "OutcomeCode": "outcome.code", "WaitCode": "wait.code", "PlanCode": "plan.code", "CheckCode": "checks[].code", "CauseCode": "cause.code", "Code": "gpus[].code", "Kind": "kind", "UseKind": "parts[].kind", "Phase": "state",
}

func describeFields(out *strings.Builder, fields *ast.StructType) {
	for _, f := range fields.Fields.List {
		typ := typeWords(f.Type)
		if len(f.Names) == 0 {
			if typ != words("Head") {
				fmt.Fprintf(out, "| | | the fields of %s |\n", typ)
			}
			continue
		}
		if f.Tag == nil {
			continue
		}
		if f.Tag.Value == "`json:\"-\"`" {
			continue
		}
		name := regexp.MustCompile(`json:"([a-z0-9_]+)`).FindStringSubmatch(f.Tag.Value)[1]
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, typ, comment(f.Comment))
	}
}

func typeWords(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeWords(x.X) + "?"
	case *ast.ArrayType:
		elem := x.Elt
		if p, is := elem.(*ast.StarExpr); is {
			if t, is := p.X.(*ast.Ident); is && t.IsExported() {
				elem = t // a list of structs has pointers to share them, never null
			}
		}
		return typeWords(elem) + "[]"
	case *ast.MapType:
		return "object: " + typeWords(x.Value)
	case *ast.SelectorExpr:
		switch x.Sel.Name {
		case "Time":
			return "time"
		case "Bytes":
			return "integer"
		case "UUID", "Closeness":
			return "string"
		}
		return words(x.Sel.Name)
	case *ast.Ident:
		return words(x.Name)
	}
	return "any"
}

func words(name string) string {
	switch name {
	case "int", "int64", "uint64":
		return "integer"
	case "float64":
		return "number"
	case "bool":
		return "boolean"
	case "string":
		return name
	case "any":
		return "anything"
	}
	if short := names[name]; short != "" {
		return short
	}
	return "[" + name + "](#" + strings.ToLower(name) + ")"
}

func comment(c *ast.CommentGroup) string {
	return strings.ReplaceAll(strings.TrimSpace(c.Text()), "|", `\|`)
}

// sentence returns a doc comment without the name, which is already in the heading.
func sentence(doc, name string) string {
	s := regexp.MustCompile("^(A |An )?"+name+" (is|are) ").ReplaceAllString(strings.Join(strings.Fields(doc), " "), "")
	return strings.ToUpper(s[:1]) + s[1:]
}

// samples has a value of each type with a sample in docs/reference/json.md.
var samples = map[string]any{
	"Status": Status{}, "Problems": Problems{}, "Plan": Plan{}, "Wait": Wait{}, "Event": Event{},
}

// Each type must have a sample in docs/reference/json.md with exactly its fields.
func TestSamplesMatchTypes(t *testing.T) {
	doc, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)<!-- (\\w+) -->\n```json\n(.*?)```").FindAllStringSubmatch(string(doc), -1) {
		name, text := m[1], m[2]
		if samples[name] == nil {
			t.Errorf("sample of unknown type %q", name)
			continue
		}
		seen[name] = true
		v := reflect.New(reflect.TypeOf(samples[name]))
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(v.Interface()); err != nil {
			t.Errorf("sample of %s: %v", name, err)
			continue
		}
		again, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if compact.String() != string(again) {
			t.Errorf("sample of %s:\ngot  %s\nwant %s", name, compact.String(), again)
		}
	}
	for name := range samples {
		if !seen[name] {
			t.Errorf("docs/reference/json.md has no sample of %s", name)
		}
	}
}

// The name of an amount of bytes must end in _bytes, and no field may be omitted.
func TestByteFieldsNameTheirUnit(t *testing.T) {
	done := map[reflect.Type]bool{}
	var check func(t *testing.T, typ reflect.Type)
	check = func(t *testing.T, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || done[typ] || typ.PkgPath() != reflect.TypeOf(Status{}).PkgPath() {
			return
		}
		done[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			tag := f.Tag.Get("json")
			if strings.Contains(tag, "omit") {
				t.Errorf("%s.%s can be omitted (use null for unknown values)", typ.Name(), f.Name)
			}
			if strings.Contains(f.Type.String(), "gpu.Bytes") && !strings.HasSuffix(tag, "_bytes") {
				t.Errorf("%s.%s is named %q, want the suffix _bytes", typ.Name(), f.Name, tag)
			}
			check(t, f.Type)
		}
	}
	for _, v := range []any{Status{}, Problems{}, GPUs{}, Queue{}, Usage{}, BatchUsage{}, Versions{}, Doctor{}, Batches{}, History{}, Why{}, Hello{}, Session{}, Past{}, Summary{}, Jobs{}, JobDetail{}, Timeline{}, Curves{}, Answer{}} {
		check(t, reflect.TypeOf(v))
	}
	if len(done) < 25 {
		t.Errorf("only %d types were checked, want at least 25", len(done))
	}
}
