package lint

import (
	"strings"
	"testing"
)

// Words must split a line so that its words, joined again, mean the same to the shell. Raw words, shown
// in braces here, keep their quotes.
func TestWordsAreLiteralOrRaw(t *testing.T) {
	for line, want := range map[string]string{
		`python train.py --lr 0.1`:                `python train.py --lr 0.1`,
		`A=1 "x" 'y z' "p $q" ~/d a*b > log 2>&1`: `{A=1} x y z {"p $q"} {~/d} {a*b} {>} log {2>&1}`,
		`a "b c" | tee "l 1" && d; e &`:           `a b c {|} tee l 1 {&&} d {;} e {&}`,
		`x $(y "z 1") "\$a" "" a\ b`:              `x {$(y "z 1")} {"\$a"}  {a\ b}`,
		`for i in 1 2; do p $i; done`:             `{for i in} 1 2 {; do} p {$i} {; done}`,
		`(cd d && p)`:                             `{(} cd d {&&} p {)}`,
		`cat <<< "a b" >out`:                      `cat {<<<} a b {>} out`,
		`[[ $a == b ]] && p`:                      `{[[} {$a} {==} b {]] &&} p`,
		`>x p 1`:                                  `{>x p 1}`,
		`p "unfinished`:                           `{p "unfinished}`,
	} {
		got := ""
		for _, w := range Words(line) {
			if w.Raw {
				w.Text = "{" + w.Text + "}"
			}
			got += " " + w.Text
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%s\ngot  %s\nwant %s", line, strings.TrimSpace(got), want)
		}
	}
}
