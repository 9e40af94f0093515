package terminal

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestCleanKeepsVisibleText(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"plain":        {"epoch 1 loss=0.2", "epoch 1 loss=0.2"},
		"colors":       {"\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m", "red and green"},
		"progress bar": {"\r 10%|#   |\r 50%|##  |\r100%|####|\n", "100%|####|"},
		"ends in CR":   {"done\r", "done"},
		"title":        {"\x1b]0;evil title\x07text", "text"},
		"title, ST":    {"\x1b]0;evil title\x1b\\text", "text"},
		"unfinished":   {"text\x1b[12;", "text"},
		"cursor":       {"a\x1b[2Jb\x1b[Hc", "abc"},
		"tab":          {"a\tb", "a b"},
		"bell":         {"a\a\bb", "ab"},
		"C1":           {"a\u009b31mb", "a31mb"},
		"bidi":         {"a\u202egpj.exe", "agpj.exe"},
		"not UTF-8":    {"a\xff\xfeb", "a??b"},
		"wide":         {"训练 é", "训练 é"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Clean(c.in); got != c.want {
				t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzCleanIsSafeToShow(f *testing.F) {
	for _, s := range []string{"", "\x1b", "\x1b[", "\x1b]0;", "a\rb", "\xff\x1b\xff", "\u202e训"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if i := strings.IndexFunc(got, unicode.IsControl); i >= 0 {
			t.Errorf("Clean(%q) = %q has a control character", s, got)
		}
		for _, w := range []int{0, 1, 7, 8, 30} {
			for what, cut := range map[string]string{"Fit": Fit(got, w), "FitMiddle": FitMiddle(got, w)} {
				if Width(cut) > w {
					t.Errorf("%s(%q, %d) = %q takes %d columns", what, got, w, cut, Width(cut))
				}
			}
			if n := Width(Pad(got, w)); n != w {
				t.Errorf("Pad(%q, %d) takes %d columns", got, w, n)
			}
		}
	})
}

func TestDurationFormats(t *testing.T) {
	cases := map[time.Duration]string{
		0: "0s", 999 * time.Millisecond: "1s", 59 * time.Second: "59s", 185 * time.Second: "3m05s",
		2*time.Hour + 7*time.Minute: "2h07m", 99 * time.Hour: "4d03h", -time.Second: "0s",
	}
	for d, want := range cases {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}
