package files

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTellingLineExplainsFailure(t *testing.T) {
	tests := []struct{ name, log, want string }{
		{"import", `loading
Traceback (most recent call last):
  File "/home/a/train.py", line 3, in <module>
    import torchh
ModuleNotFoundError: No module named 'torchh'
`, "ModuleNotFoundError: No module named 'torchh'"},
		{"epilogue of wandb", `Traceback (most recent call last):
  File "train.py", line 9, in main
    loss.backward()
    ^^^^^^^^^^^^^^^
RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)
wandb: You can sync this run to the cloud by running:
wandb: wandb sync /tmp/wandb/offline-run-1
wandb: ERROR Error while calling W&B API
`, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)"},
		{"hydra", `Error executing job with overrides: ['lr=0.1']
Traceback (most recent call last):
  File "main.py", line 20, in main
    data = load(cfg.path)
FileNotFoundError: [Errno 2] No such file or directory: '/data/cifar.npz'

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
`, "FileNotFoundError: [Errno 2] No such file or directory: '/data/cifar.npz'"},
		{"torchrun", `[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/train.py", line 5, in <module>
[rank1]:     raise ValueError("bad batch")
[rank1]: ValueError: bad batch
W1121 14:02:11.123000 4711 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4712 closing signal SIGTERM
E1121 14:02:11.340000 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 4713) of binary: python
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_14:02:11
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4713)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
`, "ValueError: bad batch"},
		{"only a launcher's exception", `Traceback (most recent call last):
  File "launch.py", line 8, in <module>
    main()
subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 1.
`, "subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 1."},
		{"a chain of exceptions", `Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'lr'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise ConfigError("lr is missing")
app.ConfigError: lr is missing
`, "app.ConfigError: lr is missing"},
		{"an exception without a message", "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    assert x\nAssertionError\n", "AssertionError"},
		{"an exception group", `  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in <module>
  |     raise ExceptionGroup("workers", errors)
  | ExceptionGroup: workers (1 sub-exception)
  +-+---------------- 1 ----------------
`, "ExceptionGroup: workers (1 sub-exception)"},
		{"a handled exception, then a crash", `Traceback (most recent call last):
  File "a.py", line 1, in <module>
OSError: cache is read-only
going on without a cache
bash: line 1: 12345 Segmentation fault      (core dumped) python a.py
`, "bash: line 1: 12345 Segmentation fault      (core dumped) python a.py"},
		{"syntax error", "  File \"train.py\", line 3\n    def f(\n         ^\nSyntaxError: '(' was never closed\n", "SyntaxError: '(' was never closed"},
		{"argparse", "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --lrr 0.1\n", "train.py: error: unrecognized arguments: --lrr 0.1"},
		{"click", "Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n\nError: No such option: --lrr\n", "Error: No such option: --lrr"},
		{"no such command", "bash: line 1: pythn: command not found\n", "bash: line 1: pythn: command not found"},
		{"no such command in dash", "sh: 1: pythn: not found\n", "sh: 1: pythn: not found"},
		{"no such script", "python: can't open file '/w/trian.py': [Errno 2] No such file or directory\n", "python: can't open file '/w/trian.py': [Errno 2] No such file or directory"},
		{"no such library", "./train: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory\n", "./train: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory"},
		{"no permission", "bash: ./run.sh: Permission denied\n", "bash: ./run.sh: Permission denied"},
		{"killed", "step 10\nbash: line 1:  4711 Killed                  python train.py\n", "bash: line 1:  4711 Killed                  python train.py"},
		{"C++", "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no CUDA device\nAborted (core dumped)\n", "what():  no CUDA device"},
		{"C assertion", "train: main.c:4: main: Assertion `x' failed.\n", "train: main.c:4: main: Assertion `x' failed."},
		{"Go", "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/w/main.go:5 +0x1d\nexit status 2\n", "panic: runtime error: index out of range [3] with length 3"},
		{"Rust", "thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`\n", "thread 'main' panicked at src/main.rs:2:5:"},
		{"R", "Error in library(torch) : there is no package called 'torch'\nExecution halted\n", "Error in library(torch) : there is no package called 'torch'"},
		{"Julia", "ERROR: LoadError: ArgumentError: Package Flux not found in current path.\nStacktrace:\n [1] top-level scope\nin expression starting at /w/a.jl:1\n", "ERROR: LoadError: ArgumentError: Package Flux not found in current path."},
		{"make", "cc: fatal error: no input files\ncompilation terminated.\nmake: *** [Makefile:3: train] Error 1\n", "cc: fatal error: no input files"},
		{"srun", "config.yaml: no key lr\nsrun: error: gpu01: task 0: Exited with exit code 1\n", "config.yaml: no key lr"},
		{"a progress bar", "epoch 1:  10%|#   |\repoch 1:  20%|##  |\rRuntimeError: CUDA error: an illegal memory access was encountered\n", "RuntimeError: CUDA error: an illegal memory access was encountered"},
		{"colors", "\x1b[31mERROR\x1b[0m: \x1b[1mdataset missing\x1b[0m\n", "ERROR: dataset missing"},
		{"warnings are not errors", "/w/a.py:3: UserWarning: this failed silently\nno checkpoint at step 0\n", "no checkpoint at step 0"},
		{"the last line", "starting\nlicense server busy\n\n\n", "license server busy"},
		{"only a progress bar", "loading\nepoch 7/20:  40%|████      | 8/20 [00:01<00:02]\n", "loading"},
		{"signal in an epoch", "loading\nepoch 6/20: done\nepoch 7/20:  10%|█\repoch 7/20:  40%|████      | 8/20 [00:01<00:02]", "at epoch 7/20"},
		{"signal after a message", "epoch 7/20\nFatal Python error: Segmentation fault\n", "Fatal Python error: Segmentation fault"},
		{"signal without a message", "loading\n", ""},
		{"blank lines", "\n \n", ""},
		{"empty log", "", ""},
		{"a torn line", "Traceback (most recent call last):\n  File \"a.py\", li", ""},
		{"invalid UTF-8", "Error: \xff\xfe\x00 broken\n", "Error: ? broken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := TellingLine([]byte(tt.log), strings.HasPrefix(tt.name, "signal")); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestTellingLineIsShort(t *testing.T) {
	got := TellingLine([]byte("ValueError: "+strings.Repeat("ä", 400)), false)
	if len(got) > maxTelling || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes, want valid UTF-8 of at most %d that ends with …: %q", len(got), maxTelling, got)
	}
}

func FuzzTellingLine(f *testing.F) {
	f.Add([]byte("Traceback (most recent call last):\n  x\nE: y\n"))
	f.Add([]byte("\x1b[31m\xff\r\n|+ Error"))
	f.Fuzz(func(t *testing.T, log []byte) {
		if got := TellingLine(log, true); len(got) > maxTelling || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b") {
			t.Errorf("got %q, want one short line of valid UTF-8 without escapes", got)
		}
	})
}
