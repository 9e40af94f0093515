package terminal

import (
	"strings"
	"testing"
)

func TestScreenAppendsPlainTextWithoutTerminal(t *testing.T) {
	var out strings.Builder
	p := Screen{Out: &out}
	for _, rows := range [][]string{{"a much longer row", "b", "c"}, {"d"}, nil} {
		if err := p.Draw(rows); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "a much longer row\nb\nc\n\nd\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
