package jobspec

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestLinesBecomeCommandsOrProblems(t *testing.T) {
	cases := map[string]struct {
		file string
		want []string // the commands; for a problem, "!" and the beginning of its text
		note string
	}{
		"comments and blank lines":          {"#!/bin/bash\n\n  # why\na 1\n\tb 2 # two\n", []string{"a 1", "b 2 # two"}, ""},
		"continued":                         {"a \\\n  --x 1 \\\n  --y 2\nb\\\\\nc \\", []string{"a   --x 1   --y 2", `b\\`, "c"}, ""},
		"in the background":                 {"nohup a > log 2>&1 &\nb &\nc\n", []string{"a > log 2>&1", "b", "c"}, "nohup and & dropped from this line and one more"},
		"after cd":                          {"cd x && A=1 nohup python a.py & # go\n", []string{"cd x && A=1 python a.py  # go"}, "nohup and & dropped from this line"},
		"several &":                         {"a & b &\na & wait\n", []string{"a & b &", "a & wait"}, ""},
		"an & in a text":                    {"echo 'a &' \"nohup b\"\nx && y\n", []string{"echo 'a &' \"nohup b\"", "x && y"}, ""},
		"a loop on one line":                {"for i in 1 2; do a $i; done\n", []string{"for i in 1 2; do a $i; done"}, ""},
		"a loop":                            {"for i in 1 2; do\na\ndone\n", []string{`!"for i in 1 2; do" is not a complete command`, "a", `!"done" is not a complete command`}, ""},
		"an open quote":                     {"python -c 'print(\n1)'\n", []string{`!"python -c 'print(" is not a complete command`, `!"1)'" is not a complete command`}, ""},
		"a here-document":                   {"cat <<EOF\n", []string{`!"cat <<EOF" is not a complete command`}, ""},
		"no lasting effect":                 {"cd x\nexport A=1; B=2\nsource e/bin/activate\nconda activate y\nset -e && ulimit -n 9\n", []string{`!"cd x" would be`, `!"export A=1; B=2" would be`, `!"source e/bin/activate" would be`, `!"conda activate y" would be`, `!"set -e && ulimit -n 9" would be`}, ""},
		"cd, env and source with a command": {"cd x && a\nA=1 a\nconda run -n x a\n> empty\nsource x; a\n", []string{"cd x && a", "A=1 a", "conda run -n x a", "> empty", "source x; a"}, ""},
		"wait":                              {"a\nwait\n", []string{"a", `!"wait" has no effect`}, ""},
		"too long to parse":                 {strings.Repeat("(", 200_000), []string{strings.Repeat("(", 200_000)}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			jobs, problems, note := parseLines("f", []byte(c.file))
			type said struct {
				at   int
				text string
			}
			var all []said
			for _, l := range jobs {
				all = append(all, said{l.Line, l.Text})
			}
			for _, p := range problems {
				all = append(all, said{p.Line, "!" + p.Text})
				if !strings.Contains(p.Hint, "--setup") && !strings.Contains(p.Hint, "needs") {
					t.Errorf("the hint for %q has no fix: %q", p.Text, p.Hint)
				}
			}
			slices.SortStableFunc(all, func(a, b said) int { return a.at - b.at })
			same := slices.EqualFunc(all, c.want, func(got said, want string) bool {
				return got.text == want || want[0] == '!' && strings.HasPrefix(got.text, want)
			})
			if !same {
				t.Errorf("got %v, want %q", all, c.want)
			}
			if note.Text != c.note {
				t.Errorf("got the note %q, want %q", note.Text, c.note)
			}
		})
	}
}

func TestLinesAreNamedAfterTheirText(t *testing.T) {
	file := "python train.py --lr 0.1\npython train.py --lr 0.1 &\n./x.sh\n'$?!'\npython train.py --dataset cifar10 --algorithm scaffold --seed 350234\n"
	want := []string{"python-train.py-lr-0.1-HASH", "python-train.py-lr-0.1-HASH-2", "x.sh-HASH", "line-HASH", "python-train.py-data..gorithm-scaffold-seed-350234-HASH"}
	jobs, _, _ := parseLines("f", []byte(file))
	hash := regexp.MustCompile(`-[0-9a-f]{8}(-2)?$`)
	var got []string
	for _, l := range jobs {
		got = append(got, hash.ReplaceAllString(l.Name, "-HASH$1"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The names of long lines contain the words that differ, and stay the same when lines are added.
func TestLongLinesGetDistinctNames(t *testing.T) {
	const common = "python /home/me/project/train.py --dataset cifar10 --config configs/"
	first := common + "a.yaml --lr 0.1 --epochs=200 --seed 1 --workers 8\n" + common + "a.yaml --lr 0.01 --epochs=200 --seed 1 --workers 8\n"
	more := first + common + "b.yaml --lr 0.1 --epochs=200 --seed 1 --workers 8\nshort 1\n"
	hash := regexp.MustCompile(`-[0-9a-f]{8}`)
	check := func(what, file string, names map[string]string, apart bool, want ...string) {
		t.Helper()
		jobs, _, _ := parseLines("f", []byte(file))
		nameDistinctly(jobs, names, apart)
		var got []string
		for _, l := range jobs {
			got = append(got, hash.ReplaceAllString(l.Name, ""))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	names := map[string]string{}
	check("new", first, names, true, "python-lr-0.1", "python-lr-0.01")
	check("one more", more, names, true, "python-lr-0.1", "python-lr-0.01", "python-config-configs-b.yaml-lr-0.1", "short-1")
	check("repeats", first+first, map[string]string{}, true, "python-lr-0.1", "python-lr-0.01", "python-lr-0.1-2", "python-lr-0.01-2")
	const ends = "python-home-me-proje..epochs=200-seed-1-workers-8"
	old := map[string]string{}
	check("named by their ends", first, old, false, ends, ends)
	check("named by their ends, kept", first, old, true, ends, ends)
	check("a single line", common+"a.yaml", map[string]string{}, true, "python-home-me-proje..ifar10-config-configs-a.yaml")
}

// A program would run in parallel with itself if each of its lines became a job.
func TestProgramIsNoList(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, test := range []struct{ name, text, want string }{
		{"run all.sh", "#!/bin/bash\npython prepare.py\npython train.py\n", "bash 'run all.sh'"},
		{"sweep", "#!/usr/bin/env python3\nimport os\n", "python3 sweep"},
		{"train.py", "print(1)\n", "python train.py"},
	} {
		if err := os.WriteFile(test.name, []byte(test.text), 0o666); err != nil {
			t.Fatal(err)
		}
		want := test.name + ": is a program, not a job file; to run it on a GPU: gpurun exec -- " + test.want + "; to turn the commands that it starts into jobs: gpurun capture -- " + test.want + "\n"
		if _, problems := load([]string{test.name}, Options{}); problemText(problems) != want {
			t.Errorf("got %s, want %s", problemText(problems), want)
		}
	}
	if err := os.WriteFile("jobs", []byte("#!/usr/bin/env -S gpurun run\njobs: [{run: x}]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	mustLoad(t, "jobs")
}

// The suggested command must not replace an existing job file.
func TestHintForSweepReplacesNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for file, text := range map[string]string{"sweep.yaml": "program: a.py\nmethod: grid\nparameters: {a: {value: 1}}\n", "jobs.yaml": "jobs: [{run: x}]\n"} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, problems := load([]string{"sweep.yaml"}, Options{}); !strings.Contains(problemText(problems), "run gpurun convert sweep.yaml > NEW.yaml\n") {
		t.Errorf("got %s", problemText(problems))
	}
}

func TestListsOfCommandsAreRecognized(t *testing.T) {
	cases := map[string]bool{
		"python a.py\npython b.py --x\n":         true,
		"#!/bin/sh\ncd x\npython a.py &\nwait\n": true,
		"":                                       false,
		"# nothing\n":                            false,
		"python a.py\n1,20\n":                    false,
		"1\npython a.py\n20\n":                   false,
		"python a.py\n1，20\n":                    false,
		"python a.py\n20GB\n":                    false,
		"job:\n  - name: x\n":                    false,
		"- run: x\n":                             false,
		"for i in 1 2; do\na\ndone\n":            false,
	}
	for file, want := range cases {
		if got := looksLikeLines([]byte(file)); got != want {
			t.Errorf("%q: got %v, want %v", file, got, want)
		}
	}
}

// FuzzLines checks that every line that is not a comment is a job or a problem, and that names are
// unique, valid, and independent of the order of the lines.
func FuzzLines(f *testing.F) {
	for _, file := range []string{
		"nohup a > log 2>&1 &\nb &\n# c\nd \\\n e\n\nd  e\n", "for i in 1 2; do\n a $i\ndone\nwait\n", "cd x && nohup nohup y & z\na & b &\n", "echo \"\\\na\n'\x00\xff\\",
		"a=(1 2) nohup x&\n((nohup))&\n", "$(nohup `nohup a b` &)\n", "é nohup  ü &\n",
		"python train.py --data set --config configs/a.yaml --lr 0.1 --seed 1\npython train.py --data set --config configs/a.yaml --lr 0.2 --seed 1\n",
	} {
		f.Add(file)
	}
	name := regexp.MustCompile(`^[A-Za-z0-9._=-]+-[0-9a-f]{8}(-[0-9]+)?$`)
	f.Fuzz(func(t *testing.T, file string) {
		looksLikeLines([]byte(file))
		parts := splitLines([]byte(file))
		jobs, problems, _ := parseLines("f", []byte(file))
		nameDistinctly(jobs, map[string]string{}, true)
		if len(jobs)+len(problems) != len(parts) {
			t.Fatalf("%d lines became %d jobs and %d problems", len(parts), len(jobs), len(problems))
		}
		var names []string
		for _, l := range jobs {
			if !name.MatchString(l.Name) || len(l.Name) > 100 || slices.Contains(names, l.Name) {
				t.Errorf("invalid or duplicate name %q", l.Name)
			}
			if l.Text == "" {
				t.Errorf("line %d has no command", l.Line)
			}
			names = append(names, l.Name)
		}
		var turned strings.Builder
		for _, l := range slices.Backward(parts) {
			if strings.HasSuffix(l.Text, `\`) {
				return // in reverse order, the line would continue with another one
			}
			turned.WriteString(l.Text + "\n")
		}
		again, _, _ := parseLines("f", []byte(turned.String()))
		nameDistinctly(again, map[string]string{}, true)
		var others []string
		for _, l := range again {
			others = append(others, l.Name)
		}
		slices.Sort(names)
		slices.Sort(others)
		if !slices.Equal(names, others) {
			t.Errorf("got names %q, but %q with the lines in reverse order", names, others)
		}
	})
}
