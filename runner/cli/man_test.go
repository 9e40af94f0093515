package cli

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The page documents every command and flag, and renders without warnings.
func TestManPageIsComplete(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&grammar{}, newApp(), nil)
	if err != nil {
		t.Fatal(err)
	}
	page := manual(parser.Model)
	var argv []string
	for _, renderer := range [][]string{{"groff", "-man", "-ww", "-Tutf8", "-P-cbou"}, {"man", "--warnings", "-l", "-"}} {
		if _, err := exec.LookPath(renderer[0]); err == nil {
			argv = renderer
			break
		}
	}
	if argv == nil {
		t.Skip("neither groff nor man is installed")
	}
	var out, warnings bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(page), &out, &warnings
	if err := cmd.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("%v: %v\n%s", argv, err, &warnings)
	}
	text := strings.NewReplacer("\u2010", "-", "\u2212", "-").Replace(out.String())
	says := func(what string) {
		t.Helper()
		if !regexp.MustCompile(`(?m)(?:^|[\s,\]])` + regexp.QuoteMeta(what) + `(?:[\s=,.]|$)`).MatchString(text) {
			t.Errorf("%q is missing", what)
		}
	}
	want := map[string]int{} // number of times the page explains each flag
	grouped := map[string]bool{}
	for _, node := range append([]*kong.Node{parser.Model.Node}, parser.Model.Children...) {
		if node.Hidden {
			if strings.Contains(text, node.Name) {
				t.Errorf("the page shows the hidden command %q", node.Name)
			}
			continue
		}
		says(node.Name)
		for _, f := range node.Flags {
			name := "--" + f.Name
			if f.Tag.Negatable != "" {
				name = "--[no-]" + f.Name
			}
			if f.Short != 0 {
				name = "-" + string(f.Short) + ", " + name
			}
			if f.Group == nil || !grouped[f.Group.Key+name] {
				want[name]++
			}
			if f.Group != nil {
				grouped[f.Group.Key+name] = true
			}
			for _, env := range f.Envs {
				says(env)
			}
		}
	}
	if len(want) < 60 {
		t.Errorf("found %d flags, want at least 60", len(want))
	}
	for name, n := range want {
		if got := len(regexp.MustCompile(`(?m)^ +`+regexp.QuoteMeta(name)+`(?:=| |$)`).FindAllString(text, -1)); got < n {
			t.Errorf("%s is explained %d times, want at least %d", name, got, n)
		}
	}
	for _, r := range exitRows {
		says(strings.Split(r.term, ",")[0])
	}
	for _, r := range append(environRows, fileRows...) {
		says(r.term)
	}
}

func TestRoffEscapes(t *testing.T) {
	cases := map[string]string{
		".TH x":       `\&.TH x`,
		"'so":         `\&'so`,
		`a\n -b`:      `a\en \-b`,
		"5 × 2 …":     `5 \[u00D7] 2 \[u2026]`,
		"quote \"x\"": `quote "x"`,
	}
	for text, want := range cases {
		if got := roff(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got, want := roffQuote(`a "b" -c`), `"a \(dqb\(dq \-c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
