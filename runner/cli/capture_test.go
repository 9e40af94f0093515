package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpurun/jobspec"
)

// launcherIn creates a folder with a launcher, for use as the user's home too.
func launcherIn(t *testing.T, launcher string) string {
	t.Helper()
	if !userNamespaces() {
		t.Skip("no user namespaces")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"launch.sh": launcher, "keep/a": "a", "keep/b": "b", "main.py": "print(1)"} {
		_ = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// capturing returns a command that captures a launcher.
func capturing(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append(append([]string{"capture", "-o", "jobs.yaml"}, args...), "--", "bash", "launch.sh")...)
	cmd.Args[0] = "gpurun"
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "CAPTURE_TEST="+dir)
	return cmd
}

// unraced makes a capture use gpurun without the race detector, which would make each recorder start
// slowly.
func unraced(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	path, err := unracedPath()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = path
	return cmd
}

// hasRaceDetector reports whether this test binary was built with -race.
func hasRaceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// unracedPath returns a gpurun as users have it, without the race detector.
var unracedPath = sync.OnceValues(func() (string, error) { return builtBeside("unraced", "build", "gpurun") })

// builtBeside lets go build a gpurun in a folder next to that of the scripts.
func builtBeside(folder, verb string, args ...string) (string, error) {
	gpurun, err := exec.LookPath("gpurun")
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(gpurun), folder, "gpurun")
	if err := os.Chmod(filepath.Join(filepath.Dir(gpurun), ".."), 0o755); err != nil { // for other users
		return "", err
	}
	if out, err := exec.Command("go", append([]string{verb, "-o", path}, args...)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", verb, err, out)
	}
	return path, nil
}

// treeHash returns a hash of all names and contents below a folder.
func treeHash(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(h, path)
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			fmt.Fprintf(h, "%x\n", sha256.Sum256(data))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// leftover returns the live processes that a capture in dir has started.
func leftover(dir string) (list []string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		env, _ := os.ReadFile(file)
		if bytes.Contains(env, []byte("CAPTURE_TEST="+dir+"\x00")) {
			list = append(list, filepath.Dir(file))
		}
	}
	return list
}

func TestHostileLaunchersChangeNothing(t *testing.T) {
	t.Parallel()
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	for name, launcher := range map[string]string{
		"rm":       "rm -rf ~ .; rm -rf ~/*; rm -rf keep",
		"kill":     fmt.Sprintf("kill -9 %d; kill -9 -1; pkill -9 sleep", bystander.Process.Pid),
		"write":    "for f in ~/new keep/a launch.sh main.py ../x /etc/passwd; do echo bad >> $f; done; chmod 777 ~; ln -s / ~/root",
		"mount":    "umount -l ~; umount -a; mount -t tmpfs x keep; echo x > keep/c",
		"network":  "exec 3<>/dev/tcp/127.0.0.1/22 && touch ~/net; curl -sm 2 http://127.0.0.1",
		"bomb":     "f() { [ $1 = 8 ] || { f $(($1 + 1)) & f $(($1 + 1)) & }; tail -f /dev/null; }; f 1",
		"endless":  "while :; do :; done",
		"daemon":   "setsid nohup tail -f /dev/null & python main.py",
		"no env":   "env -i $(readlink -f $(command -v bash)) -c 'PATH=/usr/bin:/bin; rm -rf keep; python3 main.py; touch ran'",
		"recorder": "rm -rf $GPURUN_CAPTURE /var/tmp; echo x > keep/a; python main.py",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := launcherIn(t, launcher)
			before := treeHash(t, dir)
			start := time.Now()
			cmd := capturing(dir)
			if name == "endless" || name == "recorder" { // only the limit ends them
				cmd.Env = append(cmd.Env, "TEST_CAPTURE_LIMIT=3s")
			}
			out, _ := cmd.CombinedOutput()
			if d := time.Since(start); d > 90*time.Second {
				t.Errorf("the capture took %v, want at most 90s", d)
			}
			_ = os.Remove(filepath.Join(dir, "jobs.yaml"))
			if treeHash(t, dir) != before {
				files, _ := exec.Command("find", dir).Output()
				t.Errorf("the launcher changed files: %s\n%s", files, out)
			}
			if left := leftover(dir); len(left) > 0 {
				t.Errorf("leftover processes: %v\n%s", left, out)
			}
			if bystander.Process.Signal(syscall.Signal(0)) != nil {
				t.Error("the launcher killed a process outside the sandbox")
			}
		})
	}
}

// Recorded commands do not run, however the launcher starts them. If one ran, it would create RAN,
// and the launcher would exit with 9.
func TestRecordedCommandsDoNotRun(t *testing.T) {
	t.Parallel()
	lines := []string{
		"cat keep/a | python main.py", "cat main.py | python -", "python - < main.py", "python < main.py", "echo print | python",
		"python main.py | while read l; do $l; done", "(python main.py) | cat", "{ python main.py | sort; } | sh", "python main.py | tee keep/log | sh", "python main.py > >(cat)",
		"python main.py 2>&1 | xargs -r touch", "n=$(python main.py | head -1)", "(cd keep; python ../main.py | grep -c x) || true", "f() { python main.py; }; f | cat",
		"echo main.py | xargs python", "printf '1\n2\n3\n' | xargs -P3 -I{} sh -c 'python main.py {} | cat'", "find . -name main.py -exec python {} \\;", "find . -name main.py | xargs -n1 python",
		"sh -c 'exec python main.py'", "bash -c 'python main.py' &", "nohup setsid python main.py > keep/log 2>&1 &", "timeout 9 nice -n3 python main.py", "env python main.py",
		"$PWD/bin/python main.py", "env -i $PWD/bin/python main.py", "PATH=/usr/bin:/bin $PWD/bin/python main.py", "(export PATH=$PWD/bin; python main.py)", "./script --x", "bin/../bin/python main.py",
		"./link main.py",
		"unset GPURUN_CAPTURE PYTHONPATH; python main.py", "GPURUN_CAPTURE=/nowhere python main.py", "export GPURUN_CAPTURE=", "python -u main.py", "python -m main", "torchrun main.py",
		"perl -e 'system(\"python main.py\")'", "awk 'BEGIN { system(\"python main.py\") }'", "make -s -f - all <<< $'all:\\n\\tpython main.py'", "wait", "[ ! -e RAN ] || exit 9", "exec python main.py",
	}
	dir := launcherIn(t, strings.Join(lines, "\n")+"\n")
	for name, text := range map[string]string{"bin/python": "#!/bin/sh\ntouch " + dir + "/RAN\n", "bin/torchrun": "#!/bin/sh\ntouch " + dir + "/RAN\n", "script": "#!" + dir + "/bin/python\n"} {
		_ = os.MkdirAll(filepath.Join(dir, "bin"), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("bin/python", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	cmd := unraced(t, capturing(dir))
	cmd.Env = append(cmd.Env, "PATH="+dir+"/bin:"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "for real") || !regexp.MustCompile(`^41 commands recorded`).Match(out) {
		text, _ := os.ReadFile(filepath.Join(dir, "jobs.yaml"))
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}

func TestKilledCaptureLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []bool{true, false} {
		t.Run(fmt.Sprint("sandbox ", sandbox), func(t *testing.T) {
			dir := launcherIn(t, "python main.py; touch started; while :; do sleep 1; done")
			var args []string
			if !sandbox {
				args = []string{"--no-sandbox"}
			}
			mounts, _ := os.ReadFile("/proc/self/mountinfo")
			cmd := capturing(dir, args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the launcher to start", func() bool { return len(leftover(dir)) >= 3 })
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			eventually(t, "all processes to end", func() bool { return len(leftover(dir)) == 0 })
			if after, _ := os.ReadFile("/proc/self/mountinfo"); bytes.Contains(after, []byte("gpurun-capture")) && !bytes.Contains(mounts, []byte("gpurun-capture")) {
				t.Errorf("a mount of the capture is left:\n%s", after)
			}
			if _, err := os.Stat(filepath.Join(dir, "jobs.yaml")); err == nil {
				t.Error("a killed capture wrote a job file")
			}
		})
	}
}

// A launcher cannot connect to a service's socket, even in a folder that it cannot write to.
func TestLauncherCannotReachServices(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to make a folder of another user")
	}
	dir := launcherIn(t, `/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("/mnt/socket")' 2>&1 | tail -n 1; exit 3`)
	cmd := unraced(t, capturing(dir))
	service := `import os, socket
s = socket.socket(socket.AF_UNIX)
s.bind("/mnt/socket")
os.chmod("/mnt/socket", 0o777)
s.listen()
s.set_inheritable(True)
os.execvp("setpriv", ["setpriv", "--reuid=4321", "--clear-groups", *os.sys.argv[1:]])`
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o777)
	}
	_ = os.Chmod(filepath.Dir(cmd.Path), 0o755)
	cmd.Args = append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs -o mode=755 service /mnt && exec /usr/bin/python3 -c "$0" "$@"`, service, cmd.Path}, cmd.Args[1:]...)
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = path
	out, _ := cmd.CombinedOutput()
	if want := "the launcher exited with status 3 after 0 commands: ConnectionRefusedError"; !strings.Contains(string(out), want) {
		t.Errorf("got %q, want a text with %q", out, want)
	}
}

// asOther makes a command run as a user in group 1234, who can execute cmd and reach dir.
func asOther(t *testing.T, cmd *exec.Cmd, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to act as another user")
	}
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o755)
	}
	_ = os.Chmod(filepath.Dir(cmd.Path), 0o755)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4321, Gid: 4321, Groups: []uint32{1234}}}
}

// In setgid folders, new files belong to the folder's group, which does not exist in the sandbox.
func TestCaptureInFolderOfAnotherGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ launcher, want string }{
		"small": {"set -e; mkdir -p logs/a; echo x > new; python main.py 1 >> keep/a; mv keep/b keep/c; python main.py 2 > logs/a/2; cat keep/c", "2 commands recorded"},
		"large": {"python main.py 1 >> large; python main.py 2", "the launcher cannot write to a file of another user or group: launch.sh: line 1: large: Value too large"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := launcherIn(t, c.launcher)
			if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 2<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := unraced(t, capturing(dir))
			cmd.Env = append(cmd.Env, "PATH=/usr/bin:/bin")
			asOther(t, cmd, dir)
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				mode := fs.FileMode(0o664)
				if d.IsDir() {
					mode = 0o775 | fs.ModeSetgid
				}
				return errors.Join(err, os.Chown(path, 0, 1234), os.Chmod(path, mode))
			})
			if err != nil {
				t.Fatal(err)
			}
			if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), c.want) {
				t.Errorf("got %q, want a text with %q", out, c.want)
			}
		})
	}
}

func TestCaptureGuideExampleWorks(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide/capture.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) string {
		_, rest, _ := strings.Cut(string(guide), "```"+kind+"\n")
		text, _, _ := strings.Cut(rest, "```")
		return text
	}
	dir := launcherIn(t, block("sh"))
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := capturing(dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "jobs.yaml")); string(got) != block("yaml") {
		t.Errorf("got job file\n%s\nwant\n%s", got, block("yaml"))
	}
	for line := range strings.Lines(block("console")) {
		if line[0] != '$' && !strings.Contains(string(out), line) {
			t.Errorf("the output lacks %s\n%s", line, out)
		}
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// A shellProgram is a random shell program of numbered commands. before contains each pair of
// commands whose first command ends before the shell starts the second.
type shellProgram struct {
	text   string
	n      int
	before map[[2]int]bool
	r      *rand.Rand
}

// list writes a list of commands for one shell. At its start, the commands in done have ended and
// those in open run in the background. It returns both sets as they are at its end.
func (p *shellProgram) list(depth int, done, open []int) (ended, left []int) {
	ended, left = slices.Clone(done), slices.Clone(open)
	for range 1 + p.r.IntN(3) {
		own := ended
		switch k := p.r.IntN(6); {
		case k == 0 && depth > 0:
			p.text += "( "
			own, _ = p.list(depth-1, ended, nil) // the shell does not wait for a subshell's background commands
			p.text += ") "
		case k == 1 && len(left) > 0:
			p.text += "wait; "
			ended, left = append(slices.Clone(ended), left...), nil
			continue
		case k == 2 && depth > 0:
			name := fmt.Sprintf("f%d_%d", p.n, len(p.text))
			p.text += name + "() { "
			ended, left = p.list(depth-1, ended, left)
			p.text += "}; " + name + "; "
			continue
		default:
			p.n++
			p.text += fmt.Sprintf("python p%d.py ", p.n)
			for _, e := range ended {
				p.before[[2]int{e, p.n}] = true
			}
			own = append(slices.Clone(ended), p.n)
		}
		switch p.r.IntN(3) {
		case 0:
			p.text += "& "
			for _, c := range own {
				if !slices.Contains(ended, c) {
					left = append(left, c)
				}
			}
		case 1:
			p.text += "&& true; "
			ended = own
		default:
			p.text += "; "
			ended = own
		}
	}
	return ended, left
}

// For many kinds of launchers, the captured job file passes check, and its run starts every command.
func TestCapturedLaunchersRunEveryCommand(t *testing.T) {
	t.Parallel()
	const helper = "import subprocess, sys, threading, itertools, concurrent.futures as f, os, time\n"
	for name, l := range map[string]struct {
		text     string
		commands int
		want     string // part of the job file
	}{
		"grid":        {"for d in a b; do for s in 1 2 3; do python train.py --data $d --seed $s; done; done", 6, "matrix: {data: [a, b], seed: 1..3}"},
		"background":  {"for s in 1 2 3 4; do CUDA_VISIBLE_DEVICES=$s python train.py $s > $s.log 2>&1 & done; wait; python eval.py", 5, `needs: ["train-*"]`},
		"jobs -r":     {"for s in 1 2 3 4 5; do while [ $(jobs -rp | wc -l) -ge 2 ]; do sleep 5; done; python train.py --seed $s & done; wait", 5, "matrix: {seed: 1..5}"},
		"wait -n":     {"n=0; for s in 1 2 3 4; do python train.py --seed $s & n=$((n+1)); [ $n -lt 2 ] || { wait -n; n=$((n-1)); }; done; wait", 4, "matrix: {seed: 1..4}"},
		"xargs":       {"seq 6 | xargs -P 3 -I{} python train.py --seed {}", 6, "matrix: {seed: 1..6}"},
		"while read":  {"printf 'a 1\\nb 2\\nc 9\\n' | while read d s; do python train.py --data $d --seed $s < /dev/null; done", 3, "zip: {data: [a, b, c], seed: [1, 2, 9]}"},
		"function":    {"run() { python train.py --lr $1 && python eval.py --lr $1; }; run 0.1; run 0.01; run 0.5", 6, "matrix: {lr: [0.1, 0.01, 0.5]}"},
		"arrays":      {"declare -A b=([p]=1 [q]=2); for k in p q; do python train.py --model $k --bs ${b[$k]}; done", 2, "zip: {model: [p, q], bs: [1, 2]}"},
		"nested":      {"echo 'python train.py --seed $1' > one.sh; for s in 1 2 3; do bash one.sh $s; done", 3, "matrix: {seed: 1..3}"},
		"cd":          {"mkdir -p sub; cd sub; python ../train.py; cd ..; python eval.py", 2, "work_dir: sub"},
		"env":         {"for s in 1 2; do SEED=$s python train.py; done", 2, "SEED: \"{seed}\""},
		"tee":         {"for s in 1 2; do python train.py --seed $s 2>&1 | tee log_$s.txt; done", 2, `log: "log_{seed}.txt"`},
		"subprocess":  {"/usr/bin/python3 - <<'END'\n" + helper + "for lr, s in itertools.product(['0.1', '0.2'], '12'): subprocess.run(['python', 'train.py', '--lr', lr, '--seed', s], check=True)\nEND", 4, "matrix: {lr: [0.1, 0.2], seed: [1, 2]}"},
		"os.system":   {"/usr/bin/python3 -c \"import os\nfor s in range(3): os.system(f'python train.py --seed {s}')\"", 3, "matrix: {seed: 0..2}"},
		"threads":     {"/usr/bin/python3 - <<'END'\n" + helper + "with f.ThreadPoolExecutor(2) as p: list(p.map(lambda s: [subprocess.run(['python', x, '--seed', str(s)]) for x in ('train.py', 'eval.py')], range(4)))\nEND", 8, "- \"python eval.py --seed {seed}\""},
		"Popen":       {"/usr/bin/python3 - <<'END'\n" + helper + "ps = [subprocess.Popen('python train.py --seed %d' % s, shell=True) for s in range(3)]\nwhile any(p.poll() is None for p in ps): time.sleep(10)\nsubprocess.call(['python', 'eval.py'])\nEND", 4, `needs: ["train-*"]`},
		"heredoc":     {"N=$(cat <<END | wc -l\n1\n2\nEND\n); for s in $(seq $N); do python train.py --seed $s; done", 2, "seed: [1, 2]"},
		"sbatch":      {"printf '#!/bin/bash\\n#SBATCH --array=1-3 --gres=gpu:2\\nsrun python train.py --seed $SLURM_ARRAY_TASK_ID\\n' > j.sh; sbatch j.sh", 3, "gpus: 2"},
		"sbatch loop": {"echo 'python train.py --lr $LR' > j.sh; for lr in 1 2 3; do sbatch --export=ALL,LR=$lr -t 2:00:00 j.sh; done", 3, "timeout: 120m"},
		"sbatch <<":   {"for s in 1 2; do sbatch -J x -c 1 <<END\n#!/bin/sh\n#SBATCH --gres=gpu:2\nSEED=$s \\\npython train.py --seed $s\nEND\ndone", 2, "gpus: 2"},
		"dependency":  {"a=$(sbatch --parsable --wrap 'python train.py'); sbatch -d afterok:$a --wrap 'python eval.py'", 2, `needs: ["train"]`},
		"scheduler":   {"for s in 1 2 3; do echo python train.py --seed $s; done | simple_gpu_scheduler --gpus 0 1", 3, "matrix: {seed: 1..3}"},
		"make -j":     {"printf 'all: 1 2 3;\\n%%:\\n\\tpython train.py --seed $@\\n' > M; make -s -j3 -f M 1 2 3", 3, "matrix: {seed: 1..3}"},
		"GPU number":  {"for g in 0 1 2; do python train.py --device cuda:$g --seed $g & done; wait", 3, "--device cuda:0"},
		"two GPUs":    {"export CUDA_DEVICE_ORDER=PCI_BUS_ID; CUDA_VISIBLE_DEVICES=4,5 python train.py", 1, "gpus: 2\n    run"},
		"one per GPU": {"python -m torch.distributed.launch --nproc_per_node=4 train.py", 1, "gpus: 4"},
		"processes":   {"accelerate launch --num_processes 2 train.py", 1, "gpus: 2"},
		"accelerate":  {"accelerate launch --gpu_ids 2,3 --gpu-ids=all train.py --gpu_ids 4,5", 1, "gpus: 2\n    run: accelerate launch --gpu-ids=all train.py --gpu_ids 0,1"},
		"deepspeed":   {"deepspeed --include=localhost:4,5 train.py", 1, "gpus: 2\n    run: deepspeed train.py"},
		"in docker":   {"for s in 1 2; do docker run --rm --gpus device=$s img python train.py --seed $s & done; wait; docker run --rm --gpus device=0 img python eval.py --seed 3", 3, `needs: ["train-*"]`},
		"distributed": {"for s in 1 2; do python -m torch.distributed.run --nproc_per_node=2 --rdzv_id=$s train.py --seed $s; done; python -m torch.distributed.run --nproc_per_node=2 --rdzv_id=3 eval.py --seed 3", 3, `needs: ["train-*"]`},
		"docker":      {"for g in 0 1; do docker run --rm --gpus device=$g img python train.py --gpus 1 --seed $g & done; wait", 2, `run: 'docker run --rm --gpus "\"device=$CUDA_VISIBLE_DEVICES\"" img python train.py --gpus 1 --seed {seed}'`},
		"flags":       {"docker run --sig-proxy -itp8080:80 --gpus device=3 img python train.py", 1, `--sig-proxy -itp8080:80 --gpus "\"device=$CUDA_VISIBLE_DEVICES\"" img`},
		"two devices": {`docker run -v "$PWD":/w --gpus '"device=2,3"' img python train.py`, 1, "gpus: 2"},
		"visible":     {"docker run --gpus all -e CUDA_VISIBLE_DEVICES=2,3 -e A=b img python train.py", 1, `gpus "\"device=$CUDA_VISIBLE_DEVICES\"" -e A=b img`},
		"runtime":     {"docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=3 -e CUDA_VISIBLE_DEVICES=0 img python train.py", 1, "nvidia -e NVIDIA_VISIBLE_DEVICES img"},
		"NV_GPU":      {"NV_GPU=2,3 nvidia-docker run img python train.py", 1, "gpus: 2\n    run: nvidia-docker run -e NVIDIA_VISIBLE_DEVICES img"},
		"Slurm":       {"sbatch --mem 16G --gres=gpu:2 --wrap 'python train.py'", 1, "memory: 16GiB\n    share: false"},
		"srun":        {"sbatch -t 60 --gres=gpu:2 --wrap 'srun --mem 1G python train.py'", 1, "gpus: 2\n    timeout: 60m\n    memory: 1GiB"},
		"srun's own":  {"sbatch -t 60 --gres=gpu:2 --wrap 'srun -t 5 --gres=gpu:1 python train.py'", 1, "    gpus: 1\n    timeout: 5m\n    run"},
		"gres":        {"sbatch --gres=gpu:a100:2,nvme:500G --wrap 'python train.py'", 1, "gpus: 2"},
		"no GPU":      {"sbatch --gres=gpu:0 --wrap 'python train.py'", 1, "gpus: 0"},
		"repeat":      {"for i in 1 2 3; do python train.py; done", 3, "matrix: {rep: 1..3}"},
		"groups":      {"for d in a b; do (python train.py --data $d; python eval.py --data $d) & done; wait; python plot.py", 5, `needs: ["train-*"]`},
		"rounds":      {"for d in a b; do for s in 1 2; do python train.py --data $d --seed $s & done; wait; python eval.py --data $d; done; python plot.py", 7, `needs: ["train-{data}-*"]`},
		"rounds of 2": {"for i in 1 2 3; do python train.py $i & python eval.py $i & wait; python plot.py $i; done", 9, `needs: ["train-{arg}", "eval-{arg}"]`},
		"rounds, all": {"for d in a b; do for s in 1 2; do python train.py --data $d$s & done; wait; python eval.py --data $d; done", 6, `needs: ["train-*"]`},
		"stages":      {"for d in a b; do python train.py --stage 1 $d; python eval.py $d & python train.py --stage 2 $d & wait; done; python plot.py", 7, `needs: ["train-*", "eval-*"]`},
		"names":       {"python train.py --text 'a  b {x} $HOME \"q\"' 'it'\\''s'", 1, "train.py"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := launcherIn(t, l.text+"\n")
			stub := fmt.Sprintf("#!/bin/sh\necho \"$PWD $*\" >> %s/started\n", dir)
			for file, text := range map[string]string{"bin/python": stub, "bin/accelerate": stub, "bin/deepspeed": stub, "bin/docker": stub, "bin/nvidia-docker": stub, "train.py": "", "eval.py": "", "plot.py": "", "sub/x": ""} {
				_ = os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755)
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := unraced(t, capturing(dir))
			cmd.Env = append(cmd.Env, "PATH="+dir+"/bin:"+os.Getenv("PATH"), "GPURUN_SIM=8x24GiB")
			out, err := cmd.CombinedOutput()
			text, _ := os.ReadFile(filepath.Join(dir, "jobs.yaml"))
			if err != nil || !strings.HasPrefix(string(out), fmt.Sprintf("%d command", l.commands)) || !strings.Contains(string(text), l.want) {
				t.Fatalf("%v\n%s\n%s", err, out, text)
			}
			for _, args := range [][]string{{"check", "jobs.yaml"}, {"jobs.yaml"}} {
				run := exec.Command(cmd.Path, args...)
				run.Dir, run.Env = dir, cmd.Env
				if out, err := run.CombinedOutput(); err != nil || args[0] == "check" && name != "names" && bytes.Contains(out, []byte("warning")) {
					t.Fatalf("gpurun %s: %v\n%s\n%s", args, err, out, text)
				}
			}
			if started, _ := os.ReadFile(filepath.Join(dir, "started")); bytes.Count(started, []byte("\n")) != l.commands {
				t.Errorf("started %s\n%s", started, text)
			}
		})
	}
}

func TestCapturedOrderMatchesShell(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := &shellProgram{before: map[[2]int]bool{}, r: rand.New(rand.NewPCG(seed, 7))}
			p.list(2, nil, nil)
			p.text += "\n"
			dir := launcherIn(t, p.text)
			out, err := unraced(t, capturing(dir)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, p.text, out)
			}
			b, err := jobspec.Load([]string{filepath.Join(dir, "jobs.yaml")}, jobspec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[[2]int]bool{}
			number := func(id int) (n int) {
				fmt.Sscanf(b.Commands(&b.Jobs[id])[0], "python p%d.py", &n)
				return n
			}
			for i := range b.Jobs {
				after := slices.Clone(b.Jobs[i].Needs)
				for k := range i {
					if b.Jobs[i].Queue >= 0 && b.Jobs[k].Queue == b.Jobs[i].Queue {
						after = append(after, int32(k))
					}
				}
				for _, a := range after {
					got[[2]int{number(int(a)), number(i)}] = true
				}
			}
			for k := 1; k <= p.n; k++ {
				for i := 1; i <= p.n; i++ {
					for j := 1; j <= p.n; j++ {
						if got[[2]int{i, k}] && got[[2]int{k, j}] {
							got[[2]int{i, j}] = true
						}
					}
				}
			}
			warned := bytes.Contains(out, []byte("in a queue")) || bytes.Contains(out, []byte("wait for all"))
			for i := 1; i <= p.n; i++ {
				for j := 1; j <= p.n; j++ {
					pair := [2]int{i, j}
					if p.before[pair] && !got[pair] || got[pair] && !p.before[pair] && !warned {
						text, _ := os.ReadFile(filepath.Join(dir, "jobs.yaml"))
						t.Errorf("p%d before p%d: %v in the shell, %v in the job file\n%s\n%s\n%s", i, j, p.before[pair], got[pair], p.text, text, out)
						return
					}
				}
			}
		})
	}
}

// randomCommands writes loops, groups, functions and lists of commands with words that need quotes.
func randomCommands(r *rand.Rand, depth int) (text string) {
	words := []string{"$i", "'a  b'", `"x$i y"`, "{i}", "'$HOME'", "--lr=0.$i", "\\*", "''", "'{lr}'", "é", "--seed $i", "'it'\\''s'", "~x"}
	for range 1 + r.IntN(3) {
		switch k := r.IntN(8); {
		case depth == 0 || k < 2:
			text += fmt.Sprintf("python p%d.py", r.IntN(3))
			for range r.IntN(4) {
				text += " " + words[r.IntN(len(words))]
			}
			text += []string{"\n", " &\n", " && true\n", " || exit 1\n", " < /dev/null\n", " | cat\n"}[r.IntN(6)]
		case k == 2:
			text += "for i in $(seq " + fmt.Sprint(1+r.IntN(3)) + "); do\n" + randomCommands(r, depth-1) + "done\n"
		case k == 3:
			text += "( cd keep; i=7\n" + randomCommands(r, depth-1) + ") " + []string{"&\n", "\n"}[r.IntN(2)]
		case k == 4:
			text += "{\n" + randomCommands(r, depth-1) + "wait; }\n"
		case k == 5:
			text += fmt.Sprintf("f%d() {\nlocal i=$1\n%s}\nf%[1]d 4\nf%[1]d 5\n", depth, randomCommands(r, depth-1))
		case k == 6:
			text += "export X=$i\n"
		default:
			text += "if [ $i = 1 ]; then\n" + randomCommands(r, depth-1) + "else\n" + randomCommands(r, depth-1) + "fi\n"
		}
	}
	return text
}

func TestCapturedCommandsMatchShell(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			text := "i=1\npython first.py\n" + randomCommands(rand.New(rand.NewPCG(seed, 11)), 3) + "wait\n"
			dir := launcherIn(t, text)
			_ = os.Mkdir(filepath.Join(dir, "bin"), 0o755)
			stub := fmt.Sprintf("#!/bin/bash\nprintf '%%q ' \"$PWD\" \"X=$X\" \"$@\" | tr '\\n' ' ' | sed 's/$/\\n/' >> %s/started\n", dir)
			if err := os.WriteFile(filepath.Join(dir, "bin/python"), []byte(stub), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := unraced(t, capturing(dir))
			cmd.Env = append(cmd.Env, "PATH="+dir+"/bin:"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, out)
			}
			started := func(dir string, argv ...string) {
				run := exec.Command(argv[0], argv[1:]...)
				run.Dir, run.Env = dir, cmd.Env
				if out, err := run.CombinedOutput(); err != nil {
					t.Fatalf("%q: %v\n%s\n%s", argv, err, out, text)
				}
			}
			lines := func() []string {
				data, _ := os.ReadFile(filepath.Join(dir, "started"))
				_ = os.Remove(filepath.Join(dir, "started"))
				return slices.Sorted(strings.SplitSeq(string(data), "\n"))
			}
			started(dir, "bash", "launch.sh")
			want := lines()
			b, err := jobspec.Load([]string{filepath.Join(dir, "jobs.yaml")}, jobspec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Jobs {
				r, err := b.Render(&b.Jobs[i], jobspec.Runtime{Environ: cmd.Env})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range r.Commands {
					started(r.WorkDir, append(append([]string{"env"}, r.Env...), "bash", "-c", c)...)
				}
			}
			if got := lines(); !slices.Equal(got, want) {
				file, _ := os.ReadFile(filepath.Join(dir, "jobs.yaml"))
				t.Errorf("started\n%q\nwant\n%q\n%s\n%s", got, want, text, file)
			}
		})
	}
}
