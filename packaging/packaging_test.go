// Package packaging builds and checks the release files; see dist.mk.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// Each form of a version must sort as git, dpkg and pip expect.
func TestVersionForms(t *testing.T) {
	for git, want := range map[string][2]string{
		"v0.9.0":                           {"0.9.0", "0.9.0"},
		"v0.9.0-rc.1":                      {"0.9.0~rc.1", "0.9.0rc1"},
		"v0.9.0-3-g1f4143b":                {"0.9.0+3.g1f4143b", "0.9.0+3.g1f4143b"},
		"v0.9.0-dirty":                     {"0.9.0+dirty", "0.9.0+dirty"},
		"v0.9.0-beta.2-4-gabc1234-dirty":   {"0.9.0~beta.2+4.gabc1234.dirty", "0.9.0b2+4.gabc1234.dirty"},
		"v0.0.0-929-g1f4143b":              {"0.0.0+929.g1f4143b", "0.0.0+929.g1f4143b"},
		"v10.20.30-alpha.10-11-g0123456ab": {"10.20.30~alpha.10+11.g0123456ab", "10.20.30a10+11.g0123456ab"},
	} {
		for form, want := range map[string]string{"git": git, "deb": want[0], "pep440": want[1]} {
			cmd := exec.Command("./version.sh", form)
			cmd.Env = append(os.Environ(), "VERSION="+git)
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("version.sh %s of %s: %s, %v; want %s", form, git, got, err, want)
			}
		}
	}
}

// A release's notes are its section of the changelog. notes.sh fails if there is none.
func TestReleaseNotesAreChangelogSection(t *testing.T) {
	log := filepath.Join(t.TempDir(), "CHANGELOG.md")
	text := "# Changelog\n\n## [Unreleased]\n\n- soon\n\n## [0.9.0] - 2026-01-02\n\n### Fixed\n\n- this\n\n## [0.9.0-rc.1] - 2026-01-01\n\n## [0.8.0] - 2025-01-01\n\n- that\n"
	if err := os.WriteFile(log, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]string{"v0.9.0": "### Fixed\n\n- this", "v0.8.0": "- that", "v0.9.0-rc.1": "", "v0.9": "", "v1.0.0": ""} {
		out, err := exec.Command("./notes.sh", tag, log).CombinedOutput()
		if got := strings.TrimSpace(string(out)); (err == nil) != (want != "") || want != "" && got != want {
			t.Errorf("notes.sh %s: %v\n%s\nwant %q", tag, err, got, want)
		}
	}
}

// Each program violates one rule of check-elf.sh, except the last one, which may leave the symbols of NVML
// undefined.
func TestELFCheckRefusesBadPrograms(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	for name, c := range map[string]struct{ code, flags, glibc, want string }{
		"newer":  {"int main(void) { return 0; }", "-Wl,-z,lazy", "2.1", "needs glibc 2."},
		"now":    {"int main(void) { return 0; }", "-Wl,-z,now", "99", "binds all symbols at start"},
		"rpath":  {"int main(void) { return 0; }", "-Wl,-z,lazy -Wl,-rpath,/opt", "99", "has an RPATH"},
		"symbol": {"int other(void); int main(void) { return other(); }", "-Wl,-z,lazy -Wl,--unresolved-symbols=ignore-all -Wl,--export-dynamic", "99", "undefined symbols that are not NVML's: other"},
		"nvml":   {"int nvmlInit_v2(void); int main(void) { return nvmlInit_v2(); }", "-Wl,-z,lazy -Wl,--unresolved-symbols=ignore-all -Wl,--export-dynamic", "99", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, bin := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
			if err := os.WriteFile(src, []byte(c.code), 0o666); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("cc", append(strings.Fields(c.flags), "-fno-stack-protector", "-o", bin, src)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := exec.Command("./check-elf.sh", bin, c.glibc).CombinedOutput()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(string(out), c.want)) {
				t.Errorf("check-elf.sh: %v\n%s\nwant %q", err, out, c.want)
			}
		})
	}
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

// Workflows must parse, and the make targets and scripts they call must exist.
func TestWorkflowsCallExistingTargets(t *testing.T) {
	targets := map[string]bool{}
	for _, name := range []string{"../Makefile", "dist.mk"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			targets[m[1]] = true
		}
	}
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatalf("found workflows %v, %v; want ci.yml and release.yml", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var w struct {
			On   any
			Jobs map[string]struct {
				RunsOn string `yaml:"runs-on"`
				Steps  []struct{ Name, Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		called := 0
		for job, j := range w.Jobs {
			if j.RunsOn == "" || len(j.Steps) == 0 {
				t.Errorf("%s: job %s has no runs-on or no steps", name, job)
			}
			for _, s := range j.Steps {
				for line := range strings.Lines(s.Run) {
					words := strings.Fields(line)
					switch {
					case len(words) == 0:
					case words[0] == "make":
						for _, w := range words[1:] {
							called++
							if !strings.Contains(w, "=") && !targets[w] {
								t.Errorf("%s: make %s: no such target", name, w)
							}
						}
					case strings.Contains(words[0], "/"):
						called++
						if info, err := os.Stat(filepath.Join("..", words[0])); err != nil || info.Mode()&0o100 == 0 {
							t.Errorf("%s: %s: %v", name, words[0], err)
						}
					}
				}
			}
		}
		if called == 0 {
			t.Errorf("%s calls no make target and no script", name)
		}
	}
}
