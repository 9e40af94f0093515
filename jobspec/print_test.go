package jobspec

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpurun/jobspec/lint"
)

// Ranges of thousands expand to thousands of jobs, which only slow down the fuzzer.
var rangeInText = regexp.MustCompile(`\d{4,}`)

const nativeSample = `
settings: {max_concurrent: 4, pools: {disk: 4, net: 1}, poll: 5s, gpu_ids: "0,2-3", work_dir: ..}
defaults: {timeout: 6h, log: "logs/{name}.log", env: {A: "{port} $HOME ${X}$$", B: 1, C: "{started}"}}
jobs:
  - name: "train-{d}"
    matrix:
      d: [a, b]
      s: [007, 1e-5, "x y", null, 0.10, true]
      exclude: [{d: a, s: 0.1}]
      include: [{d: a, extra: "5"}, {d: c, s: 1, extra: 2}]
    run: |
      echo "${HOME}" {d:q} {{d}} {foo} {gpu_list} '{print $1}'
      python t.py
    args: {lr: 1e-5, flag: true, off: false, name: "{name}", s: "{s}"}
    gpus: 2-4
    pool: {disk: 2}
    gpu_memory: 12GiB
    outputs: ["ckpt/{name}.pt"]
    metrics: {acc: 'best "acc" = ([0-9.]+)\s*$', loss: {file: "out/{name}.csv", key: test.loss, at: max val_acc, goal: min, percent: true}}
  - zip: {x: [1, 2], y: [3, 4]}
    matrix: {z: [0..1..0.25]}
    run: ["echo {x}", "echo {y:03d}"]
    timeout: {after: 4h, signal: USR1, grace: "{x}m"}
    retry: {max: 3, delay: 10s, on: [oom, exit]}
    when: always
    needs: ["train-*"]
  - name: table
    matrix: {from: rows.csv, r: [1, 2]}
    sample: {n: 2, rng: 5, params: {u: "log 1e-4..1e-1", v: int 2..8, w: [a, b]}}
    run: echo {k} {u}
    args: {t: "{t}"}
  - {name: last, run: x, needs: ["job-2-*"], gpus: 0, cpus: 2, queue: q, pool: net, tags: [a, b], shell: [sh, -c], desc: "the {name}"}
`

const nestedSample = `
jobs:
  - name: "t-{tag}-{scene}"
    matrix:
      scene: [a, b, "{n}"]
      tag: ["{scene:q}-{seed:03d}", "x-{n}"]
      esc: ["{{seed}}"]
      include: [{scene: a, dir: "x/{tag}"}, {scene: c, tag: d, esc: "", dir: "{scene}{tag}{work_dir}"}]
    params: {out: "runs/{tag2}", tag2: "{n}/{name}", seed: 7, n: "{seed}", json: '{"lr": {n}}'}
    run: echo {out:q} {n:03d} {json}
    args: {out: "{out}", n: "{n}"}
    env: {A: "{n}"}
    work_dir: "{n}"
`

const rowsSample = "k, t\n1e-3, \"{k}, x\"\n, true\n"

const listSample = `
jobs:
  - name: SVHN_ours_seed42
    config: SVHN.yaml
    algorithm: ours
    log_path: logs/SVHN_ours_seed42.log
    extra_args: {seed: 42, gamma_reg: 0.001, lambda_max: 50}
  - name: plain
    config: SVHN.yaml
    algorithm: other
    gpu_memory: 2GiB
`

const blockSample = "python train.py --seed 1\npython eval.py\n1,20\n\n2 #queue\n\"bash {work_dir}/a.sh --uni_id {uni_id}\"\n2 #GPUs\n10 #GB\n\npython b.py\n1,5\n"

// printed loads content, prints it, loads the printed text, and compares both batches.
func printed(t *testing.T, name, content string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("SVHN.yaml", "lr: 0.1\nseed: 1 # of all\n")
	write("rows.csv", rowsSample)
	path := write(name, content)
	b, problems := load([]string{path}, Options{})
	load([]string{path}, Options{Lint: true})
	if b == nil {
		if len(problems) == 0 {
			t.Fatal("neither a batch nor a problem")
		}
		return
	}
	allow := map[string]string{"allow": strings.Join(lint.Names, ",")}
	if linted, problems := load([]string{path}, Options{Lint: true, Flags: allow}); linted == nil && !strings.Contains(content, "allow") {
		t.Fatalf("findings although every lint is allowed:\n%s", problemText(problems))
	}
	first := string(Print(b))
	again, problems := load([]string{write("printed.yaml", first)}, Options{})
	if again == nil {
		t.Fatalf("the printed text does not load:\n%s\n%s", problemText(problems), first)
	}
	if second := string(Print(again)); second != first {
		t.Fatalf("the second print differs:\n%s\nfirst:\n%s", second, first)
	}
	if got, want := len(again.Jobs), len(b.Jobs); got != want {
		t.Fatalf("the printed text has %d jobs, want %d:\n%s", got, want, first)
	}
	same(t, again, b)
}

// same compares the jobs of a batch with those loaded from its printed text.
func same(t *testing.T, printed, b *Batch) {
	t.Helper()
	rt := Runtime{UniID: "u", Attempt: 1, GPUs: []int{3}, Port: 30000, Log: "/log"}
	for i := range b.Jobs {
		got, want := &printed.Jobs[i], &b.Jobs[i]
		if want.Spec.text.Activation() > 0 { // a block that begins with conda activate
			got.Key, want.Key = Key{}, Key{}
			got.Spec.Template, want.Spec.Template = 0, 0
		}
		if got.Name != want.Name || got.Key != want.Key || !slices.Equal(got.Needs, want.Needs) || got.Queue != want.Queue {
			t.Fatalf("printed job %q has key %s and needs %v, want %q, %s, %v", got.Name, got.Key, got.Needs, want.Name, want.Key, want.Needs)
		}
		if got, want := comparable(got.Spec), comparable(want.Spec); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the printed spec is %+v, want %+v", b.Jobs[i].Name, got, want)
		}
		is, err1 := printed.Render(got, rt)
		was, err2 := b.Render(want, rt)
		slices.Sort(is.Env) // printing may move null parameters to the front
		slices.Sort(was.Env)
		for _, list := range [][]Metric{is.Metrics, was.Metrics} {
			for i := range list {
				list[i].File = nil // File includes its line; only Path matters
			}
		}
		if !reflect.DeepEqual(is, was) || (err1 == nil) != (err2 == nil) {
			t.Errorf("printed job %s renders as %+v (%v), want %+v (%v)", want.Name, is, err1, was, err2)
		}
	}
}

// comparable clears what native YAML cannot express; see Unlike.
func comparable(s *Spec) Spec {
	c := *s
	if c.Tree {
		c.Tree, c.Leftovers = false, "wait"
	}
	c.Request.UtilOnOwn, c.Template, c.text = false, 0, nil
	return c
}

const lineSample = "python a.py --lr 1e-5 \\\n  --out {uni_id}\npython a.py &\npython a.py\necho \"it's\" '{{name}}' # {gpu}\n"

// Notification targets from a job file must be printed, whatever the name of the file.
func TestPrintKeepsNotificationTargets(t *testing.T) {
	for _, name := range []string{"jobs.yaml", "a:b.yaml"} {
		b := mustLoad(t, writeJobFile(t, name, "settings: {notify: $TEAM}\njobs: [{name: a, run: x, notify: [{command: 'say \"hi\"', on: [failure], min_duration: 10m}, $TEAM]}]\n"))
		if text := string(Print(b)); !strings.Contains(text, `notify: [{url: "$TEAM"`) {
			t.Errorf("%s: notify is missing in\n%s", name, text)
		}
		again := mustLoad(t, writeJobFile(t, "again.yaml", string(Print(b))))
		if got, want := again.Jobs[0].Spec.Notify, b.Jobs[0].Spec.Notify; len(want) != 2 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the printed targets are %v, want %v", name, got, want)
		}
	}
}

// The base of an experiment's config decides whether its seed is a new key, wherever the base is.
func TestPrintAddsSeedThatBaseLacks(t *testing.T) {
	base := writeJobFile(t, "base.yaml", "lr: 1\n")
	for _, config := range []string{base, "{work_dir}/base.yaml"} {
		path := filepath.Join(filepath.Dir(base), "jobs.yaml")
		content := "jobs: [{name: a, config: '" + config + "', algorithm: ours, extra_args: {seed: 1}}]\n"
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if text := string(Print(mustLoad(t, path))); !strings.Contains(text, `"+seed": 1`) {
			t.Errorf("config %s: seed is not added in\n%s", config, text)
		}
	}
}

// Printing must not change the meaning of any job file in the repository.
func TestPrintedJobsAreTheSame(t *testing.T) {
	compared := 0
	for name, files := range everyFolder(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, data := range files {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			for path := range files {
				path = filepath.Join(dir, path)
				if !slices.Contains([]string{".yaml", ".txt"}, filepath.Ext(path)) {
					continue
				}
				o := Options{}
				if strings.HasSuffix(path, "cmds.txt") {
					o.Lines = map[string]Lines{path: {GPUs: "1-2", GPUMemory: "8GiB", Timeout: "1h", Retry: "2", Setup: "export A='x  y'\nexport B=1"}}
				}
				b, _ := load([]string{path}, o)
				if b == nil || len(b.Jobs) > 2000 {
					continue
				}
				compared++
				text := Print(b)
				other := filepath.Join(filepath.Dir(path), "printed.yaml")
				if err := os.WriteFile(other, text, 0o666); err != nil {
					t.Fatal(err)
				}
				printed, problems := load([]string{other}, Options{})
				if printed == nil || len(printed.Jobs) != len(b.Jobs) {
					t.Fatalf("%s: the printed text does not load, or has a different number of jobs:\n%s\n%s", path, problemText(problems), text)
				}
				if b.Files[0].Dialect == ofLines.name && len(b.Jobs) > 1 {
					if got, want := linesOf(t, printed), linesOf(t, b); !slices.Equal(got, want) {
						t.Errorf("the printed lines are %q, want %q", got, want)
					}
				} else {
					same(t, printed, b)
				}
				if t.Failed() {
					t.Fatalf("%s changes when it is printed:\n%s", path, text)
				}
			}
		})
	}
	if compared < 200 {
		t.Errorf("only %d job files were compared", compared)
	}
}

// linesOf returns the jobs of a list of commands as the shell sees them, without their names.
func linesOf(t *testing.T, b *Batch) (list []string) {
	for i := range b.Jobs {
		r, err := b.Render(&b.Jobs[i], Runtime{})
		if err != nil {
			t.Fatal(err)
		}
		spec := comparable(b.Jobs[i].Spec)
		list = append(list, fmt.Sprintf("%v in %s, %+v", lint.Words(r.Commands[0][strings.LastIndexByte(r.Commands[0], '\n')+1:]), r.WorkDir, spec))
	}
	slices.Sort(list)
	return list
}

// everyFolder returns the files in jobs/ and in every test script of runner/cli, by folder or script.
func everyFolder(t *testing.T) map[string]map[string][]byte {
	all := map[string]map[string][]byte{"lines": {"cmds.txt": []byte(lineSample)}, "jobs": {}}
	root := filepath.Join("..", "jobs")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		all["jobs"][filepath.Join("jobs", rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	scripts, _ := filepath.Glob("../runner/cli/testdata/script/*.txtar")
	for _, path := range scripts {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for _, f := range ar.Files {
			files[f.Name] = f.Data
		}
		all[filepath.Base(path)] = files
	}
	if len(all) < 50 {
		t.Fatalf("found only %d folders", len(all))
	}
	return all
}

func TestPrintingTwiceChangesNothing(t *testing.T) {
	for _, test := range []struct{ name, file, content string }{
		{"native", "jobs.yaml", nativeSample},
		{"nested", "jobs.yaml", nestedSample},
		{"experiments", "jobs.yaml", listSample},
		{"blocks", "command.txt", blockSample},
		{"activated", "command.txt", "conda activate x\nconda activate y\npython a.py\npython b.py\n1,1\n"},
		{"script", "jobs.yaml", "jobs: [{run: \"set -x\\n\\n  a\\t# b\\nc\\n\"}, {run: \" a\\nb\"}, {run: \"a \\nb\"}, {run: \"a\\n\\n\"}]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			mustLoadSample(t, test.file, test.content)
			printed(t, test.file, test.content)
		})
	}
}

func mustLoadSample(t *testing.T, name, content string) {
	t.Helper()
	path := writeJobFile(t, name, content)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "SVHN.yaml"), []byte("lr: 0.1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "rows.csv"), []byte(rowsSample), 0o666); err != nil {
		t.Fatal(err)
	}
	mustLoad(t, path)
}

func FuzzNative(f *testing.F) {
	f.Add(nativeSample)
	f.Add(nestedSample)
	f.Add("jobs: [{run: x, params: {a: 1}, env: {A: \"{a}\"}}]")
	files, _ := filepath.Glob("testdata/lint/*.yaml")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(string(data))
		}
	}
	f.Fuzz(func(t *testing.T, content string) { fuzzed(t, "jobs.yaml", content) })
}

func FuzzExperiments(f *testing.F) {
	f.Add(listSample)
	f.Fuzz(func(t *testing.T, content string) { fuzzed(t, "jobs.yaml", content) })
}

func FuzzBlocks(f *testing.F) {
	f.Add(blockSample)
	f.Add("conda activate x\npython a.py\npython b.py\n1,1\n\nconda activate x && python a.py\n2,1\n\nconda activate x\n1,1\n")
	f.Fuzz(func(t *testing.T, content string) { fuzzed(t, "command.txt", content) })
}

// fuzzed is printed, but skips inputs that would only be slow.
func fuzzed(t *testing.T, name, content string) {
	if len(content) > 4096 || rangeInText.MatchString(content) {
		return
	}
	printed(t, name, content)
}
