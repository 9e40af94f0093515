package terminal

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func visible(t *testing.T, colors bool, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	v := NewVisible(&b, colors)
	for _, p := range parts {
		if n, err := v.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestVisibleShowsControlCharacters(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"epoch 1\tloss 0.5\r 10%\n", "epoch 1\tloss 0.5\r 10%\n"},
		{"\x1b[1;31mred\x1b[0m\x1b[38:2::1:2:3mx\x1b[m", "\x1b[1;31mred\x1b[0m\x1b[38:2::1:2:3mx\x1b[m"},
		{"\x1b[32mgreen", "\x1b[32mgreen\x1b[0m"}, // reset at the end
		{"\x1b[2J\x1b[H\x1b[?25l", "^[[2J^[[H^[[?25l"},
		{"\x1b]0;title\x07\x1bPq\x1b\\", "^[]0;title^G^[Pq^[\\"},
		{"\x1b[" + strings.Repeat("1;", 64) + "m", "^[[" + strings.Repeat("1;", 64) + "m"},
		{"a\bb\x00\x7f", "a^Hb^@^?"},
		{"\u009b2J", "<U+009B>2J"},
		{"\x9b2J", "<9B>2J"},
		{"gpj.\u202ea\u2066", "gpj.<U+202E>a<U+2066>"},
		{"zürich 训练 👩‍🔬 caf\xe9", "zürich 训练 👩‍🔬 caf\xe9"},
		{"\x1b", "^["},
		{"\x1b[3", "^[[3"},
		{"\xe8\x9b", "\xe8<9B>"}, // the input ends in the middle of a character
	} {
		if got := visible(t, true, row.in); got != row.want {
			t.Errorf("%q: got %q, want %q", row.in, got, row.want)
		}
		if got := visible(t, true, strings.Split(row.in, "")...); got != row.want {
			t.Errorf("%q, byte by byte: got %q, want %q", row.in, got, row.want)
		}
	}
	if got, want := visible(t, false, "\x1b[31mred\x1b[0m\x1b[K"), "red^[[K"; got != want {
		t.Errorf("without colors: got %q, want %q", got, want)
	}
}

// Only color sequences may reach the terminal, whatever the log contains and wherever a read ends.
func FuzzVisiblePassesOnlyColors(f *testing.F) {
	for _, s := range []string{"\x1b[31mred\x1b[K\u009b2J\u202e", "\x1b]0;t\x07", "caf\xe9 训练\x1b["} {
		f.Add(s, 3)
	}
	colors := regexp.MustCompile("\x1b\\[[0-9;:]*m")
	f.Fuzz(func(t *testing.T, s string, cut int) {
		got := visible(t, true, s)
		cut = min(max(cut, 0), len(s))
		if apart := visible(t, true, s[:cut], s[cut:]); apart != got {
			t.Errorf("%q cut at %d: got %q, want %q", s, cut, apart, got)
		}
		for rest := colors.ReplaceAllString(got, ""); rest != ""; {
			r, n := utf8.DecodeRuneInString(rest)
			if strings.ContainsRune("\n\t\r", r) || r >= ' ' && r < 0x7f || r > 0x9f && !isControl(r) && r != utf8.RuneError ||
				r == utf8.RuneError && (n > 1 || rest[0] >= 0xa0) {
				rest = rest[n:]
				continue
			}
			t.Fatalf("%q: the output %q contains the control character %q", s, got, rest[:n])
		}
	})
}
