package expand

import (
	"slices"
	"testing"
)

func TestVariablesAreReplaced(t *testing.T) {
	sc := Scope{Params: []string{"seed", "lr", "model"}, Known: AtStart, Where: "run"}
	v := &Values{
		Params:  []*Param{{Name: "seed", Text: "007", Tag: "!!int"}, {Name: "lr", Text: "1e-5", Tag: "!!float"}, {Name: "model", Text: "a b", Tag: "!!str"}},
		Name:    "job",
		WorkDir: "/w",
		Config:  "/w/c.yaml",
		Log:     "/w/l.log",
		Runtime: &Runtime{UniID: "u", Attempt: 2, GPUs: []int{0, 3}, Port: 4711, Started: "20261121-140500"},
	}
	for _, test := range []struct{ name, in, want string }{
		{"as spelled", "{seed} {lr}", "007 1e-5"},
		{"quoted", "{model:q} {seed:q}", "'a b' 007"},
		{"number formats", "{seed:03d} {seed:d} {lr:.2f} {lr:e} {attempt:02d}", "007 7 0.00 1.000000e-05 02"},
		{"run time", "{uni_id} {attempt} {gpu_list} {gpu} {ngpus} {port} {started}", "u 2 0,3 0 2 4711 20261121-140500"},
		{"paths", "{name} {work_dir} {config} {log}", "job /w /w/c.yaml /w/l.log"},
		{"doubled", "{{seed}} {{lr:q}} {{sedes}}", "{seed} {lr:q} {{sedes}}"},
		{"doubled braces around a misspelled variable", "{{seeds}}", "{seeds}"},
		{"shell", "${seed} ${HOME:-x} ${{seed}} $((1+1))", "${seed} ${HOME:-x} ${{seed}} $((1+1))"},
		{"braces of other tools", "{} {a,b} {1..9} }} {print $1} { seed } {a b}", "{} {a,b} {1..9} }} {print $1} { seed } {a b}"},
		{"JSON", `{"seed": {seed}, "o": {"lr": {lr}}}`, `{"seed": 007, "o": {"lr": 1e-5}}`},
		{"unknown words", "{foo} {foo:03d} {seed:zz}", "{foo} {foo:03d} {seed:zz}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, _, bad := sc.parse(test.in)
			if len(bad) > 0 {
				t.Fatalf("refused %v", *bad[0])
			}
			if got := text.Render(v); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestEnvInheritsVariables(t *testing.T) {
	sc := Scope{Params: []string{"x"}, Known: AtStart, Where: "env"}
	v := &Values{Params: []*Param{{Name: "x", Text: "$HOME"}}, Runtime: &Runtime{Environ: []string{"HOME=/h", "HOMES=/no", "A=x=$B"}}}
	for _, test := range []struct{ in, want, key string }{
		{"$HOME/bin:${HOME}x", "/h/bin:/hx", "$HOME/bin:${HOME}x"},
		{"$A|$NONE|${NONE}|", "x=$B|||", "$A|$NONE|${NONE}|"},
		{"$$HOME $$ $$$HOME", "$HOME $ $/h", "$$HOME $$ $$$HOME"},
		{"5$ $1 $- ${HOME:-x} ${", "5$ $1 $- ${HOME:-x} ${", "5$ $1 $- ${HOME:-x} ${"},
		{"{x} $HOME{x}", "$HOME /h$HOME", "$HOME $HOME$HOME"},
	} {
		text, _, _ := sc.parse(test.in)
		if got := text.RenderEnv(v); got != test.want {
			t.Errorf("%s: got %q, want %q", test.in, got, test.want)
		}
		if got := text.RenderEnv(&Values{Params: v.Params}); got != test.key {
			t.Errorf("%s: got %q in the key, want %q", test.in, got, test.key)
		}
	}
}

func TestMisspelledVariablesAreRefused(t *testing.T) {
	sc := Scope{Params: []string{"seed", "learning_rate"}, Known: InJob, Where: "outputs"}
	for _, test := range []struct {
		in   string
		want []string // refused words
	}{
		{"{seeds}", []string{"{seeds}"}},
		{"{sed}", []string{"{sed}"}},
		{"{se}", nil},
		{"{sead}", nil}, // four letters, but a different word
		{"{learning_rat}", []string{"{learning_rat}"}},
		{"{learning_raet}", []string{"{learning_raet}"}},
		{"{work_dri}", []string{"{work_dri}"}},
		{"{uni_id}", []string{"{uni_id}"}}, // a known variable, but not allowed here
		{"{prot}", nil},
		{"{seeds} {seeds:03d} {sed:q}", []string{"{seeds}", "{seeds:03d}", "{sed:q}"}},
	} {
		_, _, bad := sc.parse(test.in)
		var got []string
		for _, e := range bad {
			got = append(got, e.spelt)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: refused %q, want %q", test.in, got, test.want)
		}
	}
}
