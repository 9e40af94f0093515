package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If the claims folder is removed or becomes unwritable while a job holds a GPU, the run continues,
// its claim reappears where others can see it, and another run still waits for the GPU.
func TestRunContinuesWithoutClaimsFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(claims string) error
		warns int
	}{
		{"user's folder is removed", func(claims string) error {
			mine, err := filepath.Glob(filepath.Join(claims, "gpurun-*"))
			for _, dir := range mine {
				err = os.RemoveAll(dir)
			}
			return err
		}, 0},
		{"no folder can be created", func(claims string) error {
			if err := os.RemoveAll(claims); err != nil {
				return err
			}
			return os.WriteFile(claims, nil, 0o644) // not even root can create a folder there
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(t, "gpus.yaml", "gpus: [{memory: 24GiB}]\n")
			claims := filepath.Join(p.dir, "claims")
			one := onGPUs(2, 1)[1:]
			one[0].Sleep = 1000
			a := newLane(t, p, "first", nil, one, &counts{})
			b := newLane(t, p, "second", nil, onGPUs(1, 1)[1:], &counts{})
			first := a.started(1)
			if err := c.spoil(claims); err != nil {
				t.Fatal(err)
			}
			until(t, "the claim to reappear", patience, func() bool {
				for _, root := range []string{claims, filepath.Join(p.dir, "runtime", "gpurun-claims")} {
					if found, _ := filepath.Glob(filepath.Join(root, "gpurun-*", "*.claim")); len(found) > 0 {
						return true
					}
				}
				return false
			})
			second := b.start()
			until(t, "the second run to wait", patience, func() bool {
				out, _ := b.command("status", b.file)
				return strings.Contains(string(out), "held by")
			})
			endSleep(p.mark, 1000)
			for _, r := range []*runner{first, second} {
				if !r.wait(patience) {
					t.Fatalf("gpurun did not end:\n%s", dump(r))
				}
			}
			a.ended(first, 0)
			b.ended(second, 0)
			if n := strings.Count(first.out.String(), "\nwarning: claims: "); n != c.warns {
				t.Errorf("%d warnings, want %d:\n%s", n, c.warns, first.out.String())
			}
			holds(t, merge([][]*attempt{a.check(), b.check()}), gpuMemory)
			noneLeft(t, p.mark)
		})
	}
}
