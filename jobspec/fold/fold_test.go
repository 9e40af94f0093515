package fold_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/fold"
)

// expanded folds jobs into a job file and loads it. It returns the file, and what each of its jobs runs.
func expanded(t *testing.T, jobs []fold.Job) (text string, got []string) {
	t.Helper()
	text = fold.Write(fold.Fold(jobs))
	dir := t.TempDir()
	path := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := jobspec.Load([]string{path}, jobspec.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	script := "rec() { printf '%s\\0' \"$@\"; printf '\\n\\0'; }\n"
	for i := range b.Jobs {
		r, err := b.Render(&b.Jobs[i], expand.Runtime{Environ: []string{}})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		rel, _ := filepath.Rel(dir, r.WorkDir)
		env := slices.DeleteFunc(r.Env, func(kv string) bool { return strings.HasPrefix(kv, "GPURUN_PARAM_") })
		script += strings.Join(r.Commands, "\n") + fmt.Sprintf("\nprintf 'dir %%s\\0' %s; printf 'env %%s\\0' ", quote(rel)) + strings.Join(append(quotes(env), "''"), " ") + "; printf '\\n\\n\\0'\n"
	}
	cmd := exec.Command("bash", "-c", script)
	if len(script) > 100_000 {
		cmd = exec.Command("bash")
		cmd.Stdin = strings.NewReader(script)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
	for _, j := range bytes.Split(bytes.TrimSuffix(out, []byte("\n\n\x00")), []byte("\n\n\x00")) {
		got = append(got, string(j))
	}
	return text, got
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quotes(list []string) (out []string) {
	for _, s := range list {
		out = append(out, quote(s))
	}
	return out
}

// does returns what a job runs, in the form that expanded returns.
func does(j fold.Job) string {
	s := ""
	for _, c := range j.Run {
		for _, w := range c[1:] {
			s += w.Text + "\x00"
		}
		s += "\n\x00"
	}
	dir := j.Dir
	if dir == "" {
		dir = "."
	}
	s += "dir " + dir + "\x00"
	for _, kv := range append(slices.Clone(j.Env), "") {
		s += "env " + kv + "\x00"
	}
	return s
}

func same(t *testing.T, jobs []fold.Job) {
	t.Helper()
	var want []string
	for _, j := range jobs {
		want = append(want, does(j))
	}
	text, got := expanded(t, jobs)
	slices.Sort(want)
	slices.Sort(got)
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("%d jobs became %d\n%s\ngot  %q\nwant %q", len(want), len(got), text, got[min(i, len(got)-1)], want[i])
		}
	}
}

var alphabet = []string{
	"a", "b", "lr", "1", "2", "10", "0.1", "1e-3", "007", "", " ", "'", `"`, "{", "}", "{a}", "{{a}}", "{lr}", "{gpu}", "{name}", "$", "$HOME", "`", "\\", "\n", "\t", "*", "~", "#", "é", "漢", "😀",
	"/", "_", "=", ":", ",", "-", "--", "%", "!", "&", ";", "null", "true", "no", "1..3", "[", "]", "<", "|", "x y",
}

func text(r *rand.Rand, n int) string {
	s := ""
	for range r.IntN(n) {
		s += alphabet[r.IntN(len(alphabet))]
	}
	return s
}

// randomTable returns jobs of a few programs with arguments drawn from small sets.
func randomTable(r *rand.Rand) (jobs []fold.Job) {
	for p := range 1 + r.IntN(3) {
		n, width := 1+r.IntN(20), 1+r.IntN(5)
		choices := make([][]string, width)
		for i := range choices {
			for range 1 + r.IntN(4) {
				choices[i] = append(choices[i], text(r, 4))
			}
		}
		options := []string{"--lr", "--seed", "-m", "--a", "--x-y"}
		for k := range n {
			argv := []string{"rec", fmt.Sprintf("p%d.py", p)}
			at := k
			for i, c := range choices {
				v := c[r.IntN(len(c))]
				if width < 4 { // a full grid
					v = c[at%len(c)]
					at /= len(c)
				}
				switch i % 3 {
				case 0:
					argv = append(argv, options[i], v)
				case 1:
					argv = append(argv, options[i]+"="+v)
				default:
					argv = append(argv, v+"/"+choices[0][k%len(choices[0])])
				}
			}
			if r.IntN(4) == 0 {
				argv = append(argv, "--amp")
			}
			j := fold.Job{Run: [][]fold.Word{fold.Words(argv)}}
			if p == 1 {
				j.Run = append(j.Run, fold.Words([]string{"rec", "eval.py", choices[0][k%len(choices[0])]}))
				j.Dir = fmt.Sprintf("d%d", k%2)
				j.Env = []string{"SEED=" + fmt.Sprint(k), "TEXT=" + choices[0][k%len(choices[0])] + "$TEXT"}
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func TestFoldedTextIsShort(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string // words separated by |; a log follows >
		want  string
	}{
		"one value of two words": {[]string{"x.py|--split|d3_box", "x.py|--split|d5_tool", "x.py|--split|d5_sport"}, `
  - name: "x-{split}"
    matrix: {split: [d3_box, d5_tool, d5_sport]}
    run: "rec x.py --split {split}"
`},
		"a grid in one word": {[]string{"x.py|a_1", "x.py|a_2", "x.py|b_1", "x.py|b_2"}, `
  - name: "x-{arg}-{arg_2}"
    matrix: {arg: [a, b], arg_2: [1, 2]}
    run: "rec x.py {arg}_{arg_2}"
`},
		"different separators": {[]string{"x.py|--dev|d/a/dev.pq|--task|a", "x.py|--dev|d/b/dev.pq|--task|b", "x.py|--dev|d/m/dev_m.pq|--task|m", "x.py|--dev|d/m/dev_mm.pq|--task|m"}, `
  - name: "x-{task}-{dev}"
    zip: {task: [a, b, m, m], dev: [dev, dev, dev_m, dev_mm]}
    run: "rec x.py --dev d/{task}/{dev}.pq --task {task}"
`},
		"different extensions": {[]string{"x.py|logs/a.log1", "x.py|logs/b.log2"}, `
  - name: "x-{arg}"
    matrix: {arg: [a.log1, b.log2]}
    run: "rec x.py logs/{arg}"
`},
		"numbered words": {[]string{"x.py|cfg_r1.py", "x.py|cfg_r2.py", "x.py|cfg_r3.py"}, `
  - name: "x-{arg}"
    matrix: {arg: 1..3}
    run: "rec x.py cfg_r{arg}.py"
`},
		"words with numbers": {[]string{"x.py|--net|resnet18", "x.py|--net|resnet50"}, `
  - name: "x-{net}"
    matrix: {net: [resnet18, resnet50]}
    run: "rec x.py --net {net}"
`},
		"a sentence": {[]string{`x.py|name = rnn-a, tasks = "a"`, `x.py|name = rnn-b, tasks = "b"`}, `
  - name: "x-{arg}"
    zip: {arg: [rnn-a, rnn-b], arg_2: [a, b]}
    run: "rec x.py 'name = '{arg}', tasks = \"'{arg_2}'\"'"
`},
		"a script with a variable": {[]string{"x.py|-c|A=1 run 1", "x.py|-c|A=1 run 2"}, `
  - name: "x-{c}"
    matrix: {c: [1, 2]}
    run: "rec x.py -c 'A=1 run '{c}"
`},
		"long lists": {[]string{"x.py|--a|a-very-long-name-of-a-configuration|--b|null", "x.py|--a|another-long-name-of-a-configuration|--b|2", "x.py|--a|and-another-name-of-a-configuration|--b|2"}, `
  - name: "x-{a}"
    matrix:
      include:
        - {a: a-very-long-name-of-a-configuration, b: "null"}
        - {a: another-long-name-of-a-configuration, b: 2}
        - {a: and-another-name-of-a-configuration, b: 2}
    run: "rec x.py --a {a} --b {b}"
`},
		"commands that differ in their logs": {[]string{"x.py|>a/0.out", "x.py|>b/1.out", "x.py|>b/2.out"}, `
  - name: "x-{i}"
    zip: {i: 1..3, rep: [a/0, b/1, b/2]}
    run: rec x.py
    log: "{rep}.out"
`},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []fold.Job
			for _, l := range c.lines {
				l, log, _ := strings.Cut(l, "|>")
				jobs = append(jobs, fold.Job{Run: [][]fold.Word{fold.Words(strings.Split("rec|"+l, "|"))}, Log: log})
			}
			if text := fold.Write(fold.Fold(jobs)); text != "jobs:"+c.want {
				t.Errorf("got %s\nwant %s", text, c.want)
			}
			if !strings.Contains(c.want, "log:") { // same does not compare logs
				same(t, jobs)
			}
		})
	}
}

func TestFoldedTableExpandsToTheSameJobs(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			same(t, randomTable(rand.New(rand.NewPCG(seed, 1))))
		})
	}
}

func FuzzFold(f *testing.F) {
	f.Add("a b\nc d", uint64(1))
	f.Add("{lr} 'x'\n$HOME `id`\n1..3 null", uint64(2))
	f.Fuzz(func(t *testing.T, data string, seed uint64) {
		data = strings.ToValidUTF8(strings.ReplaceAll(data, "\x00", ""), "")
		r := rand.New(rand.NewPCG(seed, 2))
		var jobs []fold.Job
		for l := range strings.SplitSeq(data, "\n") {
			argv := append([]string{"rec", "x.py"}, strings.Split(l, " ")...)
			argv = append(argv, fmt.Sprintf("--seed=%d", r.IntN(3)))
			if jobs = append(jobs, fold.Job{Run: [][]fold.Word{fold.Words(argv)}}); len(jobs) > 50 {
				break
			}
		}
		same(t, jobs)
	})
}

// A launcher loops over random steps. Each job must wait for earlier steps of the same iteration, and
// only for jobs that the launcher waited for.
func TestLoopStepsBecomeNeeds(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		var list []*fold.Command
		var turn, phase []int
		at := 0
		step := func(turnNumber int, lines []string) {
			began := len(list)
			for i, line := range lines {
				c := &fold.Command{Job: fold.Job{Run: [][]fold.Word{fold.Words(strings.Fields(line))}}}
				c.Began, c.Ended = []int{began, began}, []int{began + i + 1, began + len(lines) - i}
				list, turn, phase = append(list, c), append(turn, turnNumber), append(phase, at)
			}
			at++
		}
		body := make([][]string, 1+r.IntN(3))
		for i := range body {
			for k := range 1 + r.IntN(3) {
				body[i] = append(body[i], fmt.Sprintf("python p%d.py --turn TURN --step %d%d", r.IntN(3), i, k))
			}
		}
		if r.IntN(2) == 0 {
			step(-1, []string{"python first.py"})
		}
		for n := range 2 + r.IntN(3) {
			for _, lines := range body {
				step(n, strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "TURN", fmt.Sprint("t", n)), "\n"))
			}
		}
		step(-2, []string{"python last.py"})
		entries, warnings := fold.Plan(list)
		text := fold.Write(entries)
		path := filepath.Join(t.TempDir(), "jobs.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := jobspec.Load([]string{path}, jobspec.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		job := map[string][2]int{} // by command: its job, and its index in the job
		for i := range b.Jobs {
			for k, c := range b.Commands(&b.Jobs[i]) {
				job[c] = [2]int{i, k}
			}
		}
		needs := make([]map[int]bool, len(b.Jobs))
		var follow func(of, i int)
		follow = func(of, i int) {
			for _, n := range b.Jobs[i].Needs {
				if !needs[of][int(n)] {
					needs[of][int(n)] = true
					follow(of, int(n))
				}
			}
		}
		for i := range b.Jobs {
			needs[i] = map[int]bool{}
			follow(i, i)
		}
		all := strings.Join(warnings, "\n")
		for x, a := range list {
			for y, c := range list {
				i, ok := job[text1(a)]
				k, also := job[text1(c)]
				if !ok || !also {
					t.Fatalf("seed %d: no job runs %s or %s\n%s", seed, text1(a), text1(c), text)
				}
				before := i[0] == k[0] && i[1] < k[1] || needs[k[0]][i[0]] || b.Jobs[i[0]].Queue >= 0 && b.Jobs[i[0]].Queue == b.Jobs[k[0]].Queue && i[0] < k[0]
				want := phase[x] < phase[y] && (turn[x] < 0 || turn[y] < 0 || turn[x] == turn[y]) && a.Run[0][1] != c.Run[0][1]
				if want && !before || before && phase[x] >= phase[y] && !strings.Contains(all, "waits for all") && !strings.Contains(all, "in a queue") {
					t.Fatalf("seed %d: %s runs before %s: %v, want %v\n%s\n%s", seed, text1(a), text1(c), before, want, text, all)
				}
			}
		}
	}
}

func text1(c *fold.Command) (s string) {
	for _, w := range c.Run[0] {
		s += " " + w.Text
	}
	return s[1:]
}
