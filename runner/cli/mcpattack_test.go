package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that can write files below the root and choose all arguments must not get contents or
// names of files outside.
func TestMCPClientCannotLeaveRoot(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, out := filepath.Join(base, "lab"), filepath.Join(base, "out")
	for _, d := range []string{dir, out, filepath.Join(base, "config", "gpurun")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, text)
	}
	write := func(name, text string) { t.Helper(); put(filepath.Join(dir, name), text) }
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	const jobs = "jobs:\n  - {name: topsecret, gpus: 0, run: \"true\"}\n"
	for name, text := range map[string]string{
		"jobs.yaml": jobs, "broken.yaml": "jobs: [topsecret\n", "rows.csv": "a\ntopsecret\n", "unseen.csv": "a\n1\n", "base.yaml": "lr: topsecret\nbroken: [\n",
		"a.log": "acc = 0.5\ntopsecret\n", "a.json": `{"acc": 0.123456, "x": topsecret`,
	} {
		writeFile(t, filepath.Join(out, name), text)
	}
	link(out, "way")
	link(filepath.Join(out, "jobs.yaml"), "link.yaml")
	link(filepath.Join(out, "rows.csv"), "rows.csv")
	link(filepath.Join(out, "a.log"), "a.log")
	link(filepath.Join(out, "nothing"), "nowhere")

	s := openMCP(t, dir)
	harmless := func(what string, res *mcp.CallToolResult) string {
		t.Helper()
		b, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		for _, told := range []string{"topsecret", "unseen", "hunter2", "root:x:", "0.123456"} {
			if strings.Contains(string(b), told) {
				t.Errorf("%s: leaks %q: %s", what, told, b)
			}
		}
		return string(b)
	}
	looks := func(file string) map[string]arguments {
		return map[string]arguments{
			"check": {"file": file}, "plan": {"file": file}, "status": {"file": file}, "why": {"file": file, "jobs": []string{"*"}}, "log": {"file": file, "jobs": []string{"*"}},
			"results": {"file": file}, "history": {"file": file}, "wait": {"file": file, "seconds": 0.01},
		}
	}

	t.Run("file", func(t *testing.T) {
		for _, file := range []string{
			"../out/jobs.yaml", "../out/broken.yaml", filepath.Join(out, "jobs.yaml"), "way/jobs.yaml", "way/broken.yaml", "link.yaml", "way/../way/jobs.yaml", "nowhere",
			"way/nothing.yaml", "../out/nothing.yaml", "way/unsen.csv", "/etc/passwd", "/proc/self/environ", "/proc/self/cwd/../out/jobs.yaml", "/proc/self/root" + out + "/jobs.yaml", "", ".", "..", "/",
			"jobs.yaml\x00", "--help", "-", "~/out/jobs.yaml", "file://" + out + "/jobs.yaml",
		} {
			for _, tool := range []string{"check", "status"} { // the other tools share their path check
				res := s.raw(tool, looks(file)[tool])
				told := harmless(tool+" "+file, res)
				if !res.IsError && (tool != "check" || strings.Contains(told, `"problems\":[]`)) {
					t.Errorf("%s %q is not refused: %s", tool, file, told)
				}
			}
		}
	})

	// Paths in a job file must not lead out of the root.
	job := func(more string) string { return "jobs:\n  - {name: a, gpus: 0, run: \"true\", " + more + "}\n" }
	matrix := func(from string) string {
		return "jobs:\n  - {name: \"a-{a}\", gpus: 0, run: \"echo {a}\", matrix: {from: " + from + "}}\n"
	}
	for name, text := range map[string]string{
		"rows above":            matrix("../out/rows.csv"),
		"rows, absolute":        matrix(filepath.Join(out, "rows.csv")),
		"rows through a link":   matrix("rows.csv"),
		"rows through a folder": matrix("way/rows.csv"),
		"similar rows below":    matrix("way/unsen.csv"),
		"similar rows above":    matrix("../out/unsen.csv"),
		"rows from home":        matrix("~/out/rows.csv"),
		"rows of this process":  matrix("/proc/self/environ"),
		"rows of users":         matrix("/etc/passwd"),
		"config":                "jobs:\n  - {name: a, gpus: 0, run: \"echo {config}\", config: {base: way/base.yaml, set: {lr: 1}}}\n",
		"inputs":                job("inputs: [way/rows.csv]"),
		"inputs by a glob":      job("inputs: [\"way/*\"]"),
		"inputs by a deep glob": job("inputs: [\"../**/*.csv\"]"),
		"outputs":               job("outputs: [../out/rows.csv]"),
		"log":                   job("log: way/a.log"),
		"log by a link":         job("log: a.log"),
		"log by a variable":     job("log: \"$MY_SECRET_TOKEN.log\""),
		"work dir":              job("work_dir: ../out"),
		"work dir by a link":    job("work_dir: way"),
		"metric":                job("metrics: {acc: {file: way/a.json, key: acc}}"),
	} {
		t.Run(name, func(t *testing.T) {
			write("bad.yaml", text)
			for _, tool := range []string{"check", "plan", "status", "results"} {
				res := s.raw(tool, looks("bad.yaml")[tool])
				told := harmless(tool, res)
				if tool == "plan" && !res.IsError || tool == "check" && strings.Contains(told, `"problems\":[]`) {
					t.Errorf("%s: not refused: %s", tool, told)
				}
			}
		})
	}

	t.Run("config of blocks", func(t *testing.T) {
		write("b/blocks.txt", "1.\ntrue\n")
		if err := os.Symlink(filepath.Join(out, "base.yaml"), filepath.Join(dir, "b/config.yaml")); err != nil {
			t.Fatal(err)
		}
		for tool, args := range looks("b/blocks.txt") {
			harmless(tool, s.raw(tool, args))
		}
	})

	// Anyone who can write below the root can forge a ledger.
	t.Run("ledger", func(t *testing.T) {
		write("led.yaml", "jobs:\n  - {name: a, gpus: 0, run: \"true\", log: b.log, metrics: {acc: 'acc = ([0-9.]+)', x: {file: x.json, key: acc}}}\n")
		link(filepath.Join(out, "a.json"), "x.json")
		var plan struct{ Jobs []struct{ Key string } }
		res := s.raw("plan", arguments{"file": "led.yaml"})
		harmless("plan", res)
		if !res.IsError {
			t.Error("a metric from a link to a file outside is not refused")
		}
		write("led.yaml", "jobs:\n  - {name: a, gpus: 0, run: \"true\", log: b.log, metrics: {acc: 'acc = ([0-9.]+)'}}\n")
		s.call("plan", arguments{"file": "led.yaml"}, &plan)
		for _, state := range []string{"succeeded", "failed"} {
			for _, log := range []string{filepath.Join(out, "a.log"), "way/a.log", filepath.Join(dir, "a.log"), "/etc/passwd", "/proc/self/environ"} {
				write(".gpurun/led.yaml/ledger.jsonl", fmt.Sprintf(`{"kind":"run","time":"2026-01-02T03:04:05Z","version":1,"host":"h"}
{"kind":"start","time":"2026-01-02T03:04:06Z","job":"a","key":%q,"uni_id":"u1","attempt":1,"log":%q}
{"kind":"end","time":"2026-01-02T03:04:07Z","job":"a","key":%q,"uni_id":"u1","attempt":1,"state":%q,"exit_code":0,"metrics":{"metrics_file":%q}}
`, plan.Jobs[0].Key, log, plan.Jobs[0].Key, state, filepath.Join(out, "a.json")))
				for _, tool := range []string{"status", "why", "log", "results"} {
					args := looks("led.yaml")[tool]
					harmless(tool+" "+log, s.raw(tool, args))
				}
				harmless("log failed", s.raw("log", arguments{"file": "led.yaml", "failed": true}))
			}
		}
		link(filepath.Join(out, "rows.csv"), ".gpurun/led.yaml/logs")
		for tool, args := range looks("led.yaml") {
			harmless(tool, s.raw(tool, args))
		}
	})

	t.Run("state folder", func(t *testing.T) {
		write("s/jobs.yaml", "jobs:\n  - {name: a, gpus: 0, run: \"true\"}\n")
		put(filepath.Join(out, "state/jobs.yaml/ledger.jsonl"), `{"kind":"run","time":"2026-01-02T03:04:05Z","version":1,"host":"topsecret"}`+"\n")
		link(filepath.Join(out, "state"), "s/.gpurun")
		for tool, args := range looks("s/jobs.yaml") {
			if res := s.raw(tool, args); !res.IsError && tool != "check" {
				t.Errorf("%s is not refused: %s", tool, harmless(tool, res))
			}
		}
	})

	t.Run("files that others can write", func(t *testing.T) {
		write("open.yaml", "jobs:\n  - {name: a, gpus: 0, run: \"true\"}\n")
		write("wide/jobs.yaml", "jobs:\n  - {name: a, gpus: 0, run: \"true\"}\n")
		write("rows.csv", "x\ntopsecret\n")
		write("table.yaml", "jobs:\n  - {name: 'a-{x}', gpus: 0, run: 'echo {x}', matrix: {from: rows.csv}}\n")
		for name, mode := range map[string]os.FileMode{"open.yaml": 0o666, "wide": 0o777, "rows.csv": 0o666} {
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		if p, all := s.refused("plan", arguments{"file": "table.yaml"}); !strings.Contains(p.Text, "other users can write to") || strings.Contains(all, "topsecret") {
			t.Errorf("rows that others can write: %s", all)
		}
		for _, file := range []string{"open.yaml", "wide/jobs.yaml"} {
			for tool, args := range looks(file) {
				if p, _ := s.refused(tool, args); !strings.Contains(p.Text, "other users can write to") {
					t.Errorf("%s %s: %+v", tool, file, p)
				}
			}
		}
	})

	t.Run("the user's defaults", func(t *testing.T) {
		writeFile(t, filepath.Join(base, "config/gpurun/config.yaml"), "max_concurrent: topsecret\ntopsecret: 1\n")
		write("jobs.yaml", "jobs:\n  - {name: a, gpus: 0, run: \"true\"}\n")
		for tool, args := range looks("jobs.yaml") {
			harmless(tool, s.raw(tool, args))
		}
		write("bad.yaml", matrix(filepath.Join(base, "config/gpurun/config.yaml")))
		harmless("check", s.raw("check", arguments{"file": "bad.yaml"}))
		if err := os.Remove(filepath.Join(base, "config/gpurun/config.yaml")); err != nil {
			t.Fatal(err)
		}
	})

	// Arguments never become flags, and unknown flags are refused.
	t.Run("flags", func(t *testing.T) {
		write("jobs.yaml", "jobs:\n  - {name: a, gpus: 0, run: \"true\"}\n")
		flag := "--state-dir=" + filepath.Join(out, "state")
		for _, c := range []struct {
			tool string
			args arguments
		}{
			{"plan", arguments{"file": "jobs.yaml", "only": []string{flag}}}, {"plan", arguments{"file": "jobs.yaml", "skip": []string{flag}}},
			{"plan", arguments{"file": "jobs.yaml", "force": []string{flag}}}, {"plan", arguments{"file": "jobs.yaml", "params": arguments{flag: "1"}}},
			{"plan", arguments{"file": "jobs.yaml", "params": arguments{"a": flag}}}, {"why", arguments{"file": "jobs.yaml", "jobs": []string{flag}}},
			{"why", arguments{"file": "jobs.yaml", "jobs": []string{"--", flag}}}, {"log", arguments{"file": "jobs.yaml", "jobs": []string{"--path"}}},
			{"history", arguments{"file": "jobs.yaml", "since": flag}}, {"history", arguments{"file": "jobs.yaml", "jobs": []string{flag}}},
			{"results", arguments{"file": "jobs.yaml", "sort": flag}}, {"results", arguments{"file": "jobs.yaml", "where": []string{flag}}},
			{"results", arguments{"file": "jobs.yaml", "best": "--watch"}}, {"gpus", arguments{"gpu_memory": "--watch"}}, {"gpus", arguments{"gpu_memory": "1GiB --nvml=/x"}},
			{"wait", arguments{"file": "jobs.yaml", "jobs": []string{flag}}}, {"plan", arguments{"file": flag}}, {"check", arguments{"file": "jobs.yaml", "nvml": "/lib/x.so"}},
			{"check", arguments{"file": "jobs.yaml", "state_dir": out}}, {"plan", arguments{"file": "jobs.yaml", "program": "sh"}}, {"gpus", arguments{"sim": out + "/base.yaml"}},
			{"check", arguments{}}, {"check", arguments{"file": []string{"jobs.yaml"}}}, {"wait", arguments{"file": "jobs.yaml", "seconds": "1h"}},
		} {
			_, told := s.refused(c.tool, c.args)
			if strings.Contains(told, "topsecret") {
				t.Errorf("%s %v: %s", c.tool, c.args, told)
			}
		}
	})
}

// Without --root, the root is the current folder, unless that is the home folder or above it.
func TestMCPRootDefaultsToCurrentFolder(t *testing.T) {
	t.Parallel()
	dir := mcpRoot(t)
	home := filepath.Dir(dir)
	for _, at := range []string{home, filepath.Dir(home), "/"} {
		cmd := exec.Command(gpurunCopy(t), "mcp")
		cmd.Dir, cmd.Env = at, append(os.Environ(), "HOME="+home)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--root") {
			t.Errorf("in %s: %v: %s", at, err, out)
		}
	}
	// A second root works like the first, and a link to a root is that root.
	data := filepath.Join(home, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(data, "rows.csv"), "a\n7\n")
	writeFile(t, filepath.Join(dir, "jobs.yaml"), "jobs:\n  - {name: \"a-{a}\", gpus: 0, run: \"echo {a}\", matrix: {from: ../data/rows.csv}}\n")
	if err := os.Symlink(dir, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	s := openMCP(t, home, "--root", filepath.Join(home, "link"), "--root", data)
	for _, file := range []string{"jobs.yaml", filepath.Join(dir, "jobs.yaml"), filepath.Join(home, "link", "jobs.yaml")} {
		s.call("plan", arguments{"file": file}, nil)
	}
}
