package state

import "testing"

func TestKindIsEqualForTheSameError(t *testing.T) {
	one, two := 1, 2
	base := Failure{State: Failed, ErrorType: ErrExit, ExitCode: &one, Line: "FileNotFoundError: [Errno 2] No such file or directory: '/data/cifar10/seed1.npz'"}
	tests := []struct {
		name  string
		other func(f *Failure)
		alike bool
	}{
		{"same failure", func(*Failure) {}, true},
		{"another path", func(f *Failure) {
			f.Line = "FileNotFoundError: [Errno 2] No such file or directory: '/data/svhn/seed2.npz'"
		}, true},
		{"another exit code", func(f *Failure) { f.ExitCode = &two }, false},
		{"a signal", func(f *Failure) { f.ExitCode, f.Signal = nil, "SIGKILL" }, false},
		{"another kind", func(f *Failure) { f.State, f.ErrorType = OOM, ErrOOM }, false},
		{"another message", func(f *Failure) { f.Line = "ModuleNotFoundError: No module named 'torchh'" }, false},
		{"no line", func(f *Failure) { f.Line = "" }, false},
		{"another reason", func(f *Failure) { f.Reason = "output a.pt missing" }, false},
	}
	for _, tt := range tests {
		other := base
		tt.other(&other)
		if got := base.Kind() == other.Kind(); got != tt.alike {
			t.Errorf("%s: alike is %v, want %v:\n%s\n%s", tt.name, got, tt.alike, base.Kind(), other.Kind())
		}
	}
}

func TestGeneralizeRemovesWhatVaries(t *testing.T) {
	for text, want := range map[string]string{
		"CUDA out of memory. Tried to allocate 2.50 GiB (GPU 3; 23.69 GiB total)": "CUDA out of memory. Tried to allocate # GiB (GPU #; # GiB total)",
		"segfault at 0x7ffde1c0 in model-1e-05":                                   "segfault at # in model-#",
		"run 4f0c2d1e-aa01-4b2f-9c55-0123456789ab failed":                         "run # failed",
		"output runs/a-3/best.pt missing":                                         "output / missing",
		"ModuleNotFoundError: No module named 'torchh'":                           "ModuleNotFoundError: No module named 'torchh'",
	} {
		if got := generalize(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestCauseIsTheMostSpecificKnown(t *testing.T) {
	one, three, zero := 1, 3, 0
	for _, tt := range []struct {
		f            Failure
		want, ending string
	}{
		{Failure{Signal: "SIGSEGV", Line: "at epoch 7/20"}, "SIGSEGV at epoch 7/20", ""},
		{Failure{Signal: "SIGABRT", Line: "Fatal Python error: Aborted"}, "SIGABRT: Fatal Python error: Aborted", ""},
		{Failure{Signal: "SIGKILL"}, "SIGKILL", ""},
		{Failure{ExitCode: &one, Code: CauseOOMGPU, Line: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"}, "CUDA out of memory", " (exit status 1)"},
		{Failure{ExitCode: &one, Line: "ValueError: loss is nan"}, "ValueError: loss is nan", " (exit status 1)"},
		{Failure{ExitCode: &three, Line: "see you"}, "exit 3: see you", ""},
		{Failure{ExitCode: &three}, "exit 3", ""},
		{Failure{Reason: "timeout after 1m", Signal: "SIGTERM"}, "timeout after 1m", " (SIGTERM)"},
		{Failure{State: Lost, ExitCode: &zero}, "lost", ""},
	} {
		if cause, ending := tt.f.Cause(), tt.f.Ending(); cause != tt.want || ending != tt.ending {
			t.Errorf("%+v: %q%q, want %q%q", tt.f, cause, ending, tt.want, tt.ending)
		}
	}
}
