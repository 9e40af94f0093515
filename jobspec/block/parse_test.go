package block

import (
	"reflect"
	"strings"
	"testing"
)

func TestBothBlockLayoutsAreParsed(t *testing.T) {
	one := func(b Block) []Block { return []Block{b} }
	for _, tt := range []struct {
		name, file string
		want       []Block
	}{
		{"standard", "python train.py --seed 1\npython eval.py\n1,20\n", one(Block{1, "1", 1, 20, []Command{{"python train.py --seed 1", 1, 1}, {"python eval.py", 2, 1}}})},
		{"space and comments", "# head\n\n  ls  \n# between\n 01 , 7.5GB # both\n\n\n", one(Block{3, "1", 1, 7.5, []Command{{"ls", 3, 3}}})},
		{"optimised", "1 #queue\n\"rm -rf {work_dir}/x\"\n\" bash é \"\n2 #GPUs\n20 #GB of memory on each\n", one(Block{1, "1", 2, 20, []Command{{"rm -rf {work_dir}/x", 2, 2}, {"bash é", 3, 3}}})},
		{"optimised without GPUs", "3\nls\n20 GB 1", one(Block{1, "3", 1, 20, []Command{{"ls", 2, 1}}})},
		{"both, CRLF and BOM", "\ufeffls\r\n1,2\r\n\r\n2\r\nls\r\n3\r\n", []Block{{1, "1", 1, 2, []Command{{"ls", 1, 1}}}, {4, "2", 1, 3, []Command{{"ls", 5, 1}}}}},
		{"quotes of the shell stay", "\"$HOME/my prog\" \"a b\"\n1,2", one(Block{1, "1", 1, 2, []Command{{`"$HOME/my prog" "a b"`, 1, 1}}})},
		{"comments without a sign", "1 the first python queue\nls\n2 cards\n20 for a.py and b.py\n", one(Block{1, "1", 2, 20, []Command{{"ls", 2, 1}}})},
		{"a command that begins with a digit", "7\n7z x a.7z\n1", one(Block{1, "7", 1, 1, []Command{{"7z x a.7z", 2, 1}}})},
	} {
		got, problems := Parse("f", []byte(tt.file))
		if len(problems) > 0 || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, got, problems, tt.want)
		}
	}
}

func TestInvalidBlocksAreReported(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"neither", "ls\npwd\n", `f:1:1: lines 1-2 are not a job: "ls" (a job is commands and a line "queue,GB", or a queue line, commands and a GB line); end it with a line "queue,GB", for example 1,20`},
		{"queue only", "1\nls", `f:1:1: lines 1-2 are not a job: "1" (a job is commands and a line "queue,GB", or a queue line, commands and a GB line); end it with a line for the GPU memory in GB, for example 20`},
		{"one line", "\n ls", `f:2:2: line 2 is not a job: "ls" (a job is commands and a line "queue,GB", or a queue line, commands and a GB line); end it with a line "queue,GB", for example 1,20`},
		{"Chinese comma", "ls\n1，20\n", `f:2:1: no ASCII comma in "1，20"; write 1,20`},
		{"no blank line", "ls\n1,2\npwd\n1,2", `f:2:1: unexpected "1,2" inside a block; add a blank line after it`},
		{"line after the end", "ls\n1,2\npwd", `f:3:1: unexpected line: the block ends with "1,2" on line 2; put a blank line before it`},
		{"no command", "1,20", `f:1:1: "1,20" has no command to run; add a command above it`},
		{"numbers only", "1\n2\n3", `f:1:1: the block has no command to run; add a command between the queue and the numbers at the end`},
		{"queue twice", "1 #queue\nls\n1,20", `f:1:1: the queue is set twice, here and on line 3; remove one of them`},
		{"one number too many", "1\nls\n2\n2\n20", `f:3:1: expected a command, found the number 2; a block has one queue, one GB value and at most one GPU count`},
		{"negative queue", "ls\n-1,20", `f:2:1: invalid queue number -1; try 1`},
		{"negative memory", "ls\n1,-20", `f:2:1: invalid GPU memory: -20 GB; write how many GB must be free on each GPU, for example 20`},
		{"absurd memory", "1\nls\n99999999", `f:3:1: invalid GPU memory: 99999999 GB; write how many GB must be free on each GPU, for example 20`},
		{"no GPU", "1\nls\n0\n20", `f:3:1: invalid GPU count 0; use a whole number from 1 to 1024`},
		{"half a GPU", "1\nls\n0.5\n20", `f:3:1: invalid GPU count 0.5; use a whole number from 1 to 1024`},
		{"open quote", "\"ls\n1,20", `f:1:1: unclosed double quote: "\"ls"; close it, or remove it`},
		{"quotes in quotes", "\"echo \"a\"\"\n1,20", `f:1:1: double quotes within double quotes: "\"echo \"a\"\""; remove the outer quotes`},
		{"nothing in quotes", "\" \"\n1,20", `f:1:1: empty command; put a command between the quotes`},
		{"a command after the queue", "1 python a.py\nls\n20", `f:1:1: the command "python a.py" follows a number; put it on its own line; if it is a comment, put "#" before it`},
		{"a command after the GPUs", "1\nls\n2 \"./b.sh -x\"\n20", `f:3:1: the command "./b.sh -x\"" follows a number; put it on its own line; if it is a comment, put "#" before it`},
		{"continued", "ls \\\n -l\n1,20", `f:1:1: the command continues on the next line: "ls \\"; write it on one line: each line is a separate command`},
	} {
		got, problems := Parse("f", []byte(tt.file))
		if len(problems) != 1 || problems[0].Error() != tt.want || len(got) > 0 {
			t.Errorf("%s: got %v, %v\nwant %s", tt.name, got, problems, tt.want)
		}
	}
}

func TestBlockFilesAreRecognized(t *testing.T) {
	for file, want := range map[string]bool{
		"ls\n1,20\n": true, "1\nls\n20\n\nbroken\n": true, "# nothing\n": false,
		"jobs:\n  - run: ls\n": false, "ls\n": false,
	} {
		if got := IsBlockFile([]byte(file)); got != want {
			t.Errorf("%q: got %v, want %v", file, got, want)
		}
	}
}

// FuzzParseBlocks checks that every block becomes a job or a problem, and that both have valid
// positions.
func FuzzParseBlocks(f *testing.F) {
	for _, seed := range []string{"ls\n1,20", "1 #q\n\"ls\"\n2\n20 #GB", "1，20\n\nls", "\"\n1,2", "9\n9\n9\n9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		blocks, problems := Parse("f", []byte(file))
		if n := len(split([]byte(file))); len(blocks)+len(problems) < n {
			t.Fatalf("%d blocks became %d jobs and %d problems", n, len(blocks), len(problems))
		}
		lines := 1 + strings.Count(file, "\n")
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.Col < 1 {
				t.Fatalf("%+v has no position in the file", p)
			}
		}
		for _, b := range blocks {
			if len(b.Commands) == 0 || b.GPUs < 1 || b.GiB < 0 || b.Queue == "" {
				t.Fatalf("invalid block %+v", b)
			}
			for _, c := range b.Commands {
				if line := strings.Split(file, "\n")[c.Line-1]; !strings.Contains(line, c.Text) {
					t.Fatalf("%q is not on its line %q", c.Text, line)
				}
			}
		}
	})
}
