package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gpurun/gpu/hostrules"
	"gpurun/runner/batches"
)

// TestPageExamplesWork follows the README and each page of the guide like a new user, in a new
// folder. It writes each file that a page shows below a line with the file's name and a colon, and
// runs the other blocks by language:
//   - sh must succeed.
//   - console must print what the page shows, except for numbers, order and "…".
//   - crontab runs as cron would run it.
//   - bash calls tools that a test cannot have (root, a network, systemd, Docker). testdata/pages/tools.sh
//     has stand-ins for them.
func TestPageExamplesWork(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("found %d pages, want at least 10: %v", len(pages), err)
	}
	for _, page := range append(pages, "../../README.md") {
		if strings.HasSuffix(page, "coming-from.md") || strings.HasSuffix(page, "capture.md") {
			continue // TestComingFromPairsStartSameCommands, TestCaptureGuideExampleWorks
		}
		elsewhere := map[string]bool{"README.md": true /* docs/readme_test.sh */, "cluster.md": true /* TestRealGuideCommandsWork */}[filepath.Base(page)]
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(text, []byte("\n")); lines > 150 {
				t.Errorf("the page has %d lines, want at most 150", lines)
			}
			w := newReader(t)
			for _, b := range blocks(string(text)) {
				switch {
				case b.lang == "crontab":
					w.end() // like a reboot
					command := strings.TrimSpace(strings.SplitN(b.text, "@reboot", 2)[1])
					if out, err := w.cron(command); err != nil {
						t.Errorf("line %d: %s\n%v\n%s", b.line, command, err, out)
					}
				case b.lang == "console":
					w.session(t, b)
				case b.file != "" && b.lang != "sh" && b.lang != "bash":
					w.write(t, b.file, b.text)
				case b.lang == "sh", b.lang == "bash" && !elsewhere:
					b.text = strings.ReplaceAll(b.text, "https://ntfy.sh/my-topic", w.topic.URL)
					if strings.Contains(b.text, "run -d") { // jobs run until the block waits for them
						w.write(t, "~/hold", "")
						b.text = strings.Replace(b.text, "gpurun wait", "rm ~/hold; gpurun wait", 1)
					}
					if out, err := w.sh(b.text); err != nil {
						t.Errorf("line %d: %s\n%v\n%s", b.line, b.text, err, out)
					}
				}
			}
			if _, warnings := hostrules.NewReader(hostrules.Place{Path: w.rules(), Owner: os.Getuid()}).Read(os.Getuid()); len(warnings) > 0 {
				t.Errorf("the page's host rules are invalid: %v", warnings)
			}
			if _, err := os.Stat(w.rules()); (err == nil) != strings.Contains(string(text), "sudo install") {
				t.Errorf("host rules are installed: %v, but the page says otherwise (%v)", err == nil, err)
			}
			if got := w.messages.Load() > 0; got != strings.Contains(string(text), "notify --test") {
				t.Errorf("got test notifications: %v, want %v", got, !got)
			}
		})
	}
}

// A block is a code block of a page.
type block struct {
	lang, file, text string
	line             int
}

var fenced = regexp.MustCompile("(?ms)^( *)```([a-z]+)\n(.*?)^ *```$")

// blocks returns the code blocks of a page.
func blocks(page string) (list []block) {
	for _, at := range fenced.FindAllStringSubmatchIndex(page, -1) {
		indent := page[at[2]:at[3]]
		b := block{lang: page[at[4]:at[5]], line: 1 + strings.Count(page[:at[0]], "\n")}
		b.text = strings.ReplaceAll("\n"+page[at[6]:at[7]], "\n"+indent, "\n")[1:]
		if m := regexp.MustCompile("`([^`\n]+)`:\n\n?$").FindStringSubmatch(page[:at[0]]); m != nil {
			b.file = m[1]
		}
		list = append(list, b)
	}
	return list
}

// A reader runs the examples of a page in its own folder and environment.
type reader struct {
	dir, home string
	topic     *httptest.Server // stand-in for ntfy.sh
	messages  atomic.Int32
}

func newReader(t *testing.T) *reader {
	top := t.TempDir()
	w := &reader{dir: filepath.Join(top, "home/lab"), home: filepath.Join(top, "home")}
	w.topic = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { w.messages.Add(1) }))
	t.Cleanup(w.topic.Close)
	stand, err := filepath.Abs("testdata/pages")
	if err != nil {
		t.Fatal(err)
	}
	gpurun, err := exec.LookPath("gpurun")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"train.py", "table.py", "eval.py", "prepare.py", "crash.py"} {
		w.write(t, name, "")
	}
	for _, name := range []string{"python", "torchrun"} {
		w.write(t, "../.local/bin/"+name, `exec sh "`+stand+`/python.sh" "$@"`)
	}
	for _, name := range []string{"sudo", "docker", "systemctl", "loginctl"} {
		w.write(t, "../.local/bin/"+name, `exec sh "`+stand+`/tools.sh" `+name+` "$@"`)
	}
	w.write(t, "jobs.yaml", "jobs: [{run: python train.py}]\n") // used unless the page has its own
	w.write(t, "../claims/.keep", "")
	if err := os.Symlink(gpurun, filepath.Join(w.home, ".local/bin/gpurun")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// rules returns the path of the host rules. The reader's /etc is below its home.
func (w *reader) rules() string { return w.home + "/etc/gpurun/host.yaml" }

func (w *reader) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if strings.HasPrefix(name, "~/") {
		path = filepath.Join(w.home, name[2:])
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if strings.Contains(name, "bin/") {
		mode, text = 0o755, "#!/bin/sh\n"+text+"\n"
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// command returns a command in the reader's environment. path is put before PATH.
func (w *reader) command(dir, path string, argv ...string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = dir
	c.Env = []string{"PATH=" + path + os.Getenv("PATH"), "HOME=" + w.home, "USER=alice", "LANG=C.UTF-8", "GPURUN_SIM=4x24GiB", "GPURUN_SIM_HERE=1",
		"GPURUN_CLAIMS_DIR=" + w.home + "/claims", "GORACE=atexit_sleep_ms=0", "TEST_HOST_RULES=" + w.rules(), "WORK=" + w.home}
	c.WaitDelay = time.Second
	return c
}

func (w *reader) sh(text string) (string, error) {
	c := w.command(w.dir, w.home+"/.local/bin:", "sh", "-e")
	c.Stdin = strings.NewReader(text)
	return output(c)
}

// cron runs a line as cron does: in the home folder, without the user's PATH.
func (w *reader) cron(line string) (string, error) {
	return output(w.command(w.home, "/usr/bin:/bin:", "/bin/sh", "-c", line))
}

// output returns the output of a command, which gets SIGQUIT after a minute.
func output(c *exec.Cmd) (string, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return "", err
	}
	overdue := time.AfterFunc(time.Minute, func() { _ = c.Process.Signal(syscall.SIGQUIT) })
	defer overdue.Stop()
	err := c.Wait()
	return out.String(), err
}

// session runs the commands of a console block and compares their output with the page.
func (w *reader) session(t *testing.T, b block) {
	for _, part := range strings.Split("\n"+b.text, "\n$ ")[1:] {
		command, shown, _ := strings.Cut(part, "\n")
		hold := filepath.Join(w.home, "hold") // jobs run while it exists
		if strings.Contains(command, "run -d") {
			w.write(t, "~/hold", "")
		} else if strings.Contains(command, "wait") {
			_ = os.Remove(hold)
		}
		out, err := w.sh(command)
		if err != nil && strings.TrimSpace(shown) == "" {
			t.Errorf("line %d: %s\n%v\n%s", b.line, command, err, out)
		}
		for line := range strings.Lines(shown) {
			if want := linePattern(line); !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(plain(out)) {
				t.Errorf("line %d: %s does not print\n%sbut\n%s", b.line, command, line, out)
			}
		}
	}
}

// plain replaces numbers and removes column widths, which differ between runs.
func plain(s string) string {
	return regexp.MustCompile(`(?m)[ \t]+|[ \t]+$`).ReplaceAllString(regexp.MustCompile(`[0-9]+`).ReplaceAllString(s, "0"), " ")
}

// linePattern returns a pattern for a line of a page, in which … matches anything.
func linePattern(line string) string {
	return " ?" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(plain(line))), "…", ".*") + " ?"
}

// end kills the processes started by the page.
func (w *reader) end() {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		vars, err := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && pid != os.Getpid() && bytes.Contains(vars, []byte(fmt.Sprintf("WORK=%s\x00", w.home))) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Both sides of each pair in docs/guide/coming-from.md must start the same commands, which are listed
// here. The right side runs under gpurun. The left side runs with its tool if that is installed and
// needs no server.
func TestComingFromPairsStartSameCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"nohup and a loop":     "train.py|--lr|0.01|--seed|1 train.py|--lr|0.01|--seed|2 train.py|--lr|0.1|--seed|1 train.py|--lr|0.1|--seed|2",
		"tsp (task-spooler)":   "train.py|--name|a~b train.py|--seed|1 train.py|--seed|2",
		"simple_gpu_scheduler": "train_model.py|--lr|0.0005|--output|run_2 train_model.py|--lr|0.001|--output|run_1",
		"gflow":                "train.py|--lr|0.001|--batch-size|32 train.py|--lr|0.001|--batch-size|64 train.py|--lr|0.01|--batch-size|32 train.py|--lr|0.01|--batch-size|64",
		"Slurm arrays":         "train.py|--seed|1 train.py|--seed|2 train.py|--seed|3 train.py|--seed|4",
		"W&B sweeps":           "train.py|--lr=0.01|--seed=1 train.py|--lr=0.01|--seed=2 train.py|--lr=0.1|--seed=1 train.py|--lr=0.1|--seed=2",
		"Hydra multirun":       "train.py|lr=0.01|model=large train.py|lr=0.01|model=small train.py|lr=0.1|model=large train.py|lr=0.1|model=small",
		"Snakemake":            "table.py|out/1.pt|out/2.pt train.py|--seed|1|--out|out/1.pt train.py|--seed|2|--out|out/2.pt",
	}
	tool := map[string][2]string{ // each tool's program, and how it runs the left side
		"nohup and a loop":   {"nohup", ". ./left"},
		"tsp (task-spooler)": {"tsp", "export TS_SOCKET=$PWD/tsp; . ./left; tsp -N 4 true; tsp -w; tsp -K"},
		"Slurm arrays":       {"bash", "for SLURM_ARRAY_TASK_ID in 1 2 3 4; do export SLURM_ARRAY_TASK_ID; bash train.sbatch; done"},
		"Snakemake":          {"snakemake", "snakemake -q -j 2"},
	}
	intro, rest, _ := strings.Cut(string(page), "\n## ")
	sections := strings.Split(rest, "\n## ")
	t.Run("a script of tsp", func(t *testing.T) {
		t.Parallel()
		if !userNamespaces() {
			t.Skip("no user namespaces")
		}
		w := newReader(t)
		_, tsp, _ := strings.Cut(rest, "\n## tsp")
		w.write(t, "queue.sh", "cd runs\n"+blocks(tsp)[0].text+"export RATE=3; tsp -L last python train.py --seed 3\n")
		w.write(t, "runs/train.py", "")
		out, err := w.sh(blocks(intro)[0].text)
		if w.dir += "/runs"; err != nil || w.argv() != want["tsp (task-spooler)"]+" train.py|--seed|3" {
			t.Errorf("gpurun starts\n%s\n%v\n%s", w.argv(), err, out)
		}
	})
	if len(sections) != len(want) {
		t.Errorf("found %d pairs, want %d", len(sections), len(want))
	}
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			left, right, _ := strings.Cut(text, "</td><td>")
			w := newReader(t)
			w.write(t, "train_model.py", "")
			for _, b := range blocks(left) {
				if b.file == "" {
					b.file = "left"
				}
				w.write(t, b.file, b.text)
			}
			if run := tool[title]; run[0] != "" {
				if _, err := exec.LookPath(run[0]); err != nil {
					t.Logf("not installed: %s", run[0])
				} else if out, err := w.sh(run[1]); err != nil || w.argv() != want[title] {
					t.Errorf("%s starts\n%s, want\n%s\n%v\n%s", run[0], w.argv(), want[title], err, out)
				}
			}
			_ = os.RemoveAll(filepath.Join(w.dir, "argv"))
			_ = os.RemoveAll(filepath.Join(w.dir, "out"))
			for _, b := range blocks(right) {
				if b.file != "" && b.lang != "sh" {
					w.write(t, b.file, b.text)
				} else if out, err := w.sh(b.text); err != nil {
					t.Errorf("%s\n%v\n%s", b.text, err, out)
				}
			}
			if w.argv() != want[title] {
				t.Errorf("gpurun starts\n%s, want\n%s", w.argv(), want[title])
			}
		})
	}
}

// gpurun accepts the commands in the systemd units on the pages, and systemd-analyze, if installed,
// accepts the units. A unit that restarts runs does not restart those that a user stopped, or that gave
// up.
func TestSystemdUnitsAreValid(t *testing.T) {
	t.Parallel()
	pages, _ := filepath.Glob("../../docs/*/*.md")
	units := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks(string(text)) {
			if b.lang != "ini" {
				continue
			}
			units++
			_, start, _ := strings.Cut(b.text, "\nExecStart=%h/.local/bin/gpurun ")
			start, _, _ = strings.Cut(start, "\n")
			parser, err := newParser(&grammar{}, newApp(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(strings.Fields(start)); err != nil {
				t.Errorf("%s:%d: gpurun %s: %v", page, b.line, start, err)
			}
			_, final, _ := strings.Cut(b.text, "\nRestartPreventExitStatus=")
			final, _, _ = strings.Cut(final, "\n")
			for _, code := range []int{batches.ExitGaveUp, batches.ExitTerm} {
				if strings.HasPrefix(start, "run ") && strings.Contains(b.text, "\nRestart=") && !slices.Contains(strings.Fields(final), strconv.Itoa(code)) {
					t.Errorf("%s:%d: systemd restarts gpurun after exit status %d", page, b.line, code)
				}
			}
			if _, err := exec.LookPath("systemd-analyze"); err != nil {
				t.Log("not installed: systemd-analyze")
				continue
			}
			w := newReader(t)
			w.write(t, "a.service", b.text)
			c := w.command(w.dir, "", "systemd-analyze", "verify", "--user", "--man=no", "./a.service")
			c.Env = append(c.Env, "XDG_RUNTIME_DIR="+w.home)
			if out, err := output(c); err != nil || out != "" {
				t.Errorf("%s:%d: systemd-analyze verify: %v\n%s", page, b.line, err, out)
			}
		}
	}
	if units < 2 {
		t.Errorf("found %d units, want at least 2", units)
	}
}

// argv returns the started commands, sorted. Spaces in arguments become ~.
func (w *reader) argv() string {
	text, _ := os.ReadFile(filepath.Join(w.dir, "argv"))
	lines := strings.Fields(strings.ReplaceAll(string(text), " ", "~"))
	slices.Sort(lines)
	return strings.Join(lines, " ")
}
