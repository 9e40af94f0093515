package expand

import "testing"

// FuzzEscape checks that escaped text renders as the original.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"echo {name} {seed} {{gpu}} ${HOME} ${{x}} {a,b} {\"k\": 1}", "{config:q} {{{name}}}", "{gpu:03d}{gpu}", "${{x}{{gpu}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sc := &Scope{Known: AtStart, Where: "run"}
		text, _, bad := sc.parse(Escape(s))
		if len(bad) > 0 {
			t.Fatalf("%q is escaped as %q, which is refused: %+v", s, Escape(s), bad)
		}
		if !text.Constant() {
			t.Fatalf("%q is escaped as %q, which has variables", s, Escape(s))
		}
		got := ""
		for _, g := range text.Segs {
			got += g.Lit
		}
		if got != s {
			t.Fatalf("%q is escaped as %q, which renders as %q", s, Escape(s), got)
		}
	})
}
