package jobspec

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// jobWith returns a file with one job, its keys indented.
func jobWith(keys string) string {
	return "jobs:\n  - name: j\n    " + strings.ReplaceAll(keys, "\n", "\n    ") + "\n"
}

func warningsOf(t *testing.T, content string) []string {
	t.Helper()
	var list []string
	for _, w := range mustLoad(t, writeJobFile(t, "jobs.yaml", content)).Warnings {
		list = append(list, w.Error())
	}
	return list
}

// These jobs are valid but do not do what their author meant.
func TestLikelyMistakesAreWarnedAbout(t *testing.T) {
	for _, test := range []struct{ name, keys, want string }{
		{"continued lines that YAML joins", "run: python t.py \\\n  --lr 1 \\\n  --seed 2", `:3:22: "\ " escapes a space`},
		{"space after the backslash", "run: \"python t.py \\\\ \\n  --lr 1\"", `"\ " escapes a space`},
		{"folded, and indented further", "run: >\n  python t.py\n    --lr 1\n    --seed 2", `:5:9: "--lr 1" runs as a separate command; align it with`},
		{"a missing backslash", "run: |\n  python t.py \\\n    --lr 1\n    --seed 2", `:6:9: "--seed 2" runs as a separate command; end the previous line`},
		{"a comment among continued lines", "run: |\n  python t.py \\\n    --lr 1 \\\n    # --wd 1 \\\n    --seed 2", `:7:9: "--seed 2" runs as a separate command; remove the comment before it`},
		{"a comment after a continued line", "run: |\n  python t.py --lr 1 # why \\\n    --seed 2", `:5:9: "--seed 2" runs as a separate command; remove the comment before it`},
		{"an option as an item", "run:\n  - python t.py\n  - --lr 1", `:5:9: "--lr 1" runs as a separate command`},
		{"commands that YAML joins", "run: mkdir -p out\n  python t.py", `:4:7: YAML joins the lines, so "python t.py"`},
		{"commands that a fold joins", "run: >\n  python a.py\n  python b.py", `:5:7: YAML joins the lines, so "python b.py"`},
		{"a comment for a value", "run: python t.py --tag #1", `:3:28: "#1" is a comment`},
		{"a comment after an option", "run: python t.py --color #fff", `"#fff" is a comment`},
		{"a parameter in the shell's spelling", "params: {seed: 1}\nrun: python t.py --seed $seed", `:4:29: nothing sets the shell variable $seed`},
		{"a parameter in the shell's spelling, with braces", "params: {seed: 1}\nrun: python t.py --out \"o/${seed}\"", `nothing sets the shell variable ${seed}`},
		{"a parameter in another tool's spelling", "params: {seed: 1}\nrun: python t.py ${{ matrix.seed }}", `${{ matrix.seed }} is not a variable and is kept as is`},
		{"a parameter with spaces", "params: {seed: 1}\nrun: python t.py {{ seed }}", `{{ seed }} is not a variable and is kept as is`},
		{"another language's format", "params: {seed: 1}\nrun: python t.py {seed:4}", `{seed:4} is not a variable and is kept as is`},
		{"$ in env that is not set", "env: {A: \"x:$NO_SUCH_VARIABLE\"}\nrun: x", `:3:17: env: A: $NO_SUCH_VARIABLE is not set in gpurun's environment, so it expands to nothing`},
		{"~ in env", "env: {A: ~/x}\nrun: x", `:3:14: env: A: "~/x" is passed as is: ~ is not expanded here`},
		{"~ in args", "run: x\nargs: {data: ~/data}", `args: data: "~/data" is passed as is`},
		{"a switch", "run: x\nargs: {amp: no}", `:4:17: args: no is text, so the command gets --amp no`},
		{"args after another command", "run: python t.py && echo done\nargs: {lr: 1}", `:3:10: args are appended to "python t.py && echo done", so only its last command gets them`},
		{"args after a pipe", "run: |\n  cd src\n  python t.py 2>&1 | tee log\nargs: {lr: 1}", `:5:7: args are appended to "python t.py 2>&1 | tee log"`},
		{"a list without commas", "matrix: {seed: [1 2 3]}\nrun: x", `:3:21: "1 2 3" is a single value of parameter "seed"`},
		{"a list with fullwidth commas", "matrix: {seed: [1，2， 3]}\nrun: x", `"1，2， 3" is a single value of parameter "seed", not several; separate values with commas: 1, 2, 3`},
		{"a no-break space", "run: python t.py\u00a0--lr 1", `:3:21: "\u00a0" looks like a space, hyphen or quote`},
		{"a dash", "run: python t.py –lr 1", `:3:22: "\u2013" looks like`},
		{"quotes of a text", "run: python t.py --tag=“a b”", `:3:28: "\u201c" looks like`},
		{"a range with a hyphen", "matrix: {seed: [1-5]}\nrun: x", `"1-5" is a single value`},
		{"a range with a hyphen among numbers", "matrix: {seed: [1-5, 8]}\nrun: x", `"1-5" is a single value`},
		{"a range with exponents", "matrix: {lr: [1e-5..1e-3]}\nrun: x", `"1e-5..1e-3" is a single value`},
		{"a call of range", "matrix: {seed: [range(10)]}\nrun: x", `"range(10)" is a single value`},
		{"null for Python", "matrix: {resume: [~, a.pt]}\nrun: x", `:3:23: parameter "resume": the shell replaces ~ with your home folder; for null, write null; for the home folder, "$HOME"`},
		{"a range for one job", "params: {seed: 0..4}\nrun: x", `:3:20: "0..4" is a single value of parameter "seed", not a range`},
		{"a range in include", "matrix: {seed: [1], include: [{seed: 5..9}]}\nrun: x", `"5..9" is a single value`},
		{"an include entry without effect", "matrix: {seed: [1, 2], include: [{data: a}, {data: b}]}\nrun: x {seed} {data}", `:3:38: a later include entry overrides this one in every job; to get jobs for every entry, move data into matrix, or into zip with other parameters`},
		{"outputs without brackets", "run: x\noutputs: a.pt, b.pt", `:4:14: outputs: "a.pt, b.pt" is a single entry; a list needs brackets: [a.pt, b.pt]`},
		{"tags without brackets", "run: x\ntags: a, b", `tags: "a, b" is a single entry`},
		{"a parameter in a regular expression", "params: {seed: 1}\nrun: x {seed}\nmetrics: {acc: 'seed {seed} acc (\\S+)'}", `:5:26: metrics: acc: {seed} is not replaced in a regular expression`},
		{"the home folder", "run: x\nwork_dir: ~", `:4:15: work_dir: ~ means null in YAML`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := warningsOf(t, jobWith(test.keys))
			if len(got) != 1 || !strings.Contains(got[0], test.want) {
				t.Errorf("got warnings %q, want one that contains %s", got, test.want)
			}
		})
	}
}

// These jobs resemble mistakes but are correct.
func TestCorrectJobsGiveNoWarning(t *testing.T) {
	for _, test := range []struct{ name, keys string }{
		{"a script with continued lines", "run: |\n  python t.py \\\n    --lr 1 \\\n    --seed 2\n  echo done"},
		{"a comment at the end of continued lines", "run: |\n  python t.py \\\n    --lr 1 \\\n    # --wd 1\n  echo done"},
		{"lines that YAML joins", "run: >\n  python t.py\n  --lr 1\n  model=a"},
		{"plain lines that YAML joins", "run: python t.py\n  --lr 1"},
		{"lines joined by &&", "run: >\n  mkdir -p out &&\n  python t.py"},
		{"a wrapper", "run: >\n  conda run -n lab\n  python t.py"},
		{"an escaped space in a name", "run: cat my\\ data/a b\\ c"},
		{"an array", "run: |\n  a=(\n    --lr 1\n  )\n  python t.py \"${a[@]}\""},
		{"a text within the script", "run: |\n  cat <<END\n  --lr 1\n  END"},
		{"a text in quotes", "run: |\n  echo 'a\n  --lr 1\n  '"},
		{"a comment", "run: python t.py # --lr 1"},
		{"a variable that the script sets", "params: {seed: 1}\nrun: |\n  for seed in 1 2; do echo $seed; done"},
		{"a variable that the script assigns", "params: {seed: 1}\nrun: |\n  seed={seed}\n  echo ${seed}"},
		{"a variable of env", "params: {seed: 1}\nenv: {seed: 3}\nrun: echo $seed"},
		{"a variable of awk", "params: {seed: 1}\nrun: awk '{print $seed}'"},
		{"a variable with a longer name", "params: {seed: 1}\nrun: echo $seeds $GPURUN_PARAM_SEED"},
		{"JSON", "params: {seed: 1}\nrun: 'x {\"seed\": {seed}, \"o\": {\"a\": {seed}}}'"},
		{"an escaped variable", "params: {seed: 1}\nrun: echo {{seed}}"},
		{"$ in env", "env: {PATH: \"$HOME/bin:${PATH}\", NO_SUCH_VARIABLE: \"x:$NO_SUCH_VARIABLE\", B: $$NO_SUCH_VARIABLE}\nrun: x"},
		{"a price", "env: {A: \"5$\", B: a~b}\nrun: x\nargs: {re: \"^a$\"}"},
		{"switches", "run: x\nargs: {amp: true, cache: \"no\", off: false}"},
		{"args after one command", "run: |\n  cd src && . env\n  python t.py --s \"a|b; #c\" 'd & e' f#g \\; >log 2>&1 &>>log >|x\nargs: {lr: 1}"},
		{"no args", "run: python t.py && echo done # it"},
		{"dashes and quotes in quoted text", "run: python t.py --title 'a – b “c” – d' é漢字 — x"},
		{"age groups", "matrix: {age: [0-9, 10-19]}\nrun: x"},
		{"quoted values", "matrix: {age: [\"0-9\", \"1 2\"]}\nparams: {r: \"0..4\"}\nrun: x"},
		{"dates and versions", "matrix: {day: [2024-01-01], v: [1.2.3], t: [a b]}\nrun: x"},
		{"include entries with an effect", "matrix: {seed: [1, 2], include: [{data: a}, {data: b, seed: 1}, {seed: 9, data: c}]}\nrun: x {seed} {data}"},
		{"null for a default", "run: x\nwork_dir: null"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := warningsOf(t, jobWith(test.keys)); len(got) > 0 {
				t.Errorf("got warnings %q, want none", got)
			}
		})
	}
}

func TestBlockCommandWithoutEffectIsWarnedAbout(t *testing.T) {
	b := mustLoad(t, writeJobFile(t, "command.txt", "cd src\npython t.py\n1,20\n\ncd src && python t.py\n1,20\n"))
	if len(b.Warnings) != 1 || b.Warnings[0].Line != 1 || !strings.Contains(b.Warnings[0].Text, "has no effect on the next command") {
		t.Errorf("got warnings %v, want one about line 1", b.Warnings)
	}
}

// If all values were compared with each other, four times as many values would take 16 times as long.
func TestManyValuesAreCheckedInLinearTime(t *testing.T) {
	cpu := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	check := func(n int) time.Duration {
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf("%d-%d", i, i+5))
		}
		began := cpu()
		if got := warningsOf(t, jobWith("run: x\nmatrix: {a: ["+strings.Join(values, ", ")+"]}")); len(got) > 0 {
			t.Errorf("got %d warnings, want none; the first is %s", len(got), got[0])
		}
		return cpu() - began
	}
	if few, many := check(5_000), check(20_000); many > 10*few {
		t.Errorf("5,000 values took %v of CPU time, and 20,000 took %v, want at most ten times as much", few, many)
	}
}
