package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// completed lists what is typed before a tab and the resulting line. A line with several completions
// or none stays unchanged.
var completed = []struct{ typed, want string }{
	{"gpurun sta", "gpurun status "},
	{"gpurun st", "gpurun st"}, // status, stop
	{"gpurun --max-util 30 che", "gpurun --max-util 30 check "},
	{"gpurun tra", "gpurun train.yaml "},
	{"gpurun --max-con", "gpurun --max-concurrent "},
	{"gpurun stop --dr", "gpurun stop --drain "},
	{"gpurun plan --max-util 30 tr", "gpurun plan --max-util 30 train.yaml "},
	{"gpurun --pick fi", "gpurun --pick first-fit "},
	{"gpurun plan --order=sh", "gpurun plan --order=shuffle "},
	{"gpurun results --format j", "gpurun results --format json "},
	{"gpurun set max_c", "gpurun set max_concurrent="},
	{"gpurun set poll=1 pi", "gpurun set poll=1 pick="},
	{"gpurun set --job abc gpu_m", "gpurun set --job abc gpu_memory="},
	{"gpurun set --fi", "gpurun set --file "},
	{"gpurun help sta", "gpurun help status "},
	// Jobs of the last file, or of --file.
	{"gpurun log ab", "gpurun log abc "},
	{"gpurun log b-", "gpurun log b-"}, // b-1, b-2
	{"gpurun stop abc b-2", "gpurun stop abc b-2 "},
	{"gpurun log lr=0.1-", "gpurun log lr=0.1-s1 "},
	{"gpurun log lr=", "gpurun log lr=0.1-s1 "},
	{"gpurun log tr", "gpurun log tr"}, // no job has this prefix, and files are not completed here
	{"gpurun forget --file other.yaml c", "gpurun forget --file other.yaml cod "},
	{"gpurun done --file=other.yaml c", "gpurun done --file=other.yaml cod "},
	{"gpurun forget --file oth", "gpurun forget --file other.yaml "},
	{"gpurun forget --file=oth", "gpurun forget --file=other.yaml "},
}

// The scripts are installed in real shells as gpurun completion --help describes.
func TestTabCompletesInShells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "train.yaml"), `jobs:
  - {name: abc, gpus: 0, run: "true"}
  - {name: "lr={lr}-s1", gpus: 0, run: "true {lr}", matrix: {lr: [0.1]}}
  - {name: "b-{i}", gpus: 0, run: "true {i}", matrix: {i: [1, 2]}}
`)
	writeFile(t, filepath.Join(dir, "other.yaml"), `jobs: [{name: cod, gpus: 0, run: "true"}]`+"\n")
	run := startOnPTY(t, dir, "train.yaml")
	run.sees("4 of 4 done")
	run.exit()
	script := func(t *testing.T, shell, path string) {
		out, err := exec.Command(gpurunBinary(t), "completion", shell).Output()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, string(out))
	}
	need := func(t *testing.T, shell string) string {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Skip(shell + " is not installed")
		}
		return path
	}
	t.Run("bash", func(t *testing.T) {
		bash := need(t, "bash")
		script(t, "bash", "gpurun.bash")
		writeFile(t, filepath.Join(dir, "bashrc"), `source ./gpurun.bash
bind 'set bell-style none'
bind -x '"\C-o": printf "[line %s]\n" "${READLINE_LINE// /_}"'
`)
		tabs(t, startCommandOnPTY(t, dir, bash, "--noprofile", "--rcfile", "bashrc", "-i"))
	})
	t.Run("zsh", func(t *testing.T) {
		zsh := need(t, "zsh")
		script(t, "zsh", ".zfunc/_gpurun")
		writeFile(t, filepath.Join(dir, ".zshrc"), `fpath=(~/.zfunc $fpath)
autoload -Uz compinit && compinit -u -D
unsetopt beep
show() { zle -M "[line ${BUFFER// /_}]" }
zle -N show
bindkey -e
bindkey '^O' show
`)
		tabs(t, startCommandOnPTY(t, dir, zsh, "-d", "-i"))
	})
	t.Run("fish", func(t *testing.T) {
		fish := need(t, "fish")
		script(t, "fish", ".config/fish/completions/gpurun.fish")
		for _, row := range completed {
			cmd := exec.Command(fish, "-c", "complete -C $argv[1]", row.typed)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME=", "PATH="+filepath.Dir(gpurunBinary(t))+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var words []string
			for line := range strings.Lines(string(out)) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				words = append(words, word)
			}
			got := row.typed
			if len(words) == 1 { // fish prints only the last word
				got = got[:strings.LastIndex(got, " ")+1] + words[0]
				if !strings.HasSuffix(got, "=") { // fish adds a space to other words
					got += " "
				}
			}
			if got != row.want {
				t.Errorf("%q: got %q, want %q; fish offers %q", row.typed, got, row.want, words)
			}
		}
	})
}

// tabs types each line, then a tab, then the key that prints the line.
func tabs(t *testing.T, shell *onPTY) {
	t.Helper()
	for _, row := range completed {
		shell.types("\x15" + row.typed + "\t\x0f") // ^U first
		shell.sees("[line " + strings.ReplaceAll(row.want, " ", "_") + "]")
	}
}
