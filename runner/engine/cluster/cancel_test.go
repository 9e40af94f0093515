package cluster

import (
	"strconv"
	"strings"
	"testing"
)

// plain calls tasks "17.3", and commands what they do.
type plain struct{ Words }

func (plain) Name() string                  { return "plain" }
func (plain) Task(job string, n int) string { return job + "." + strconv.Itoa(n) }
func (plain) ByHand(what []string) string   { return "cancel " + strings.Join(what, " ") }

// A job of which no attempt is open is cancelled as a whole: thousands of tasks with one command.
func TestTargets(t *testing.T) {
	over, open := &submit{id: "a", job: "17"}, &submit{id: "b", job: "18", open: 1}
	coming, unknown := &submit{id: "c", name: "gr-c", busy: true}, &submit{id: "d", name: "gr-d"}
	gone, refused := &submit{id: "e", name: "gr-e", gone: goneAfter}, &submit{id: "f", job: "19"}
	c := &Cluster{words: plain{}, dooms: dooms{all: map[doom]bool{}}, submits: map[string]*submit{}}
	for _, s := range []*submit{over, open, coming, unknown, gone, refused} {
		c.submits[s.id] = s
		for n := range 3 {
			c.doom(s, n)
		}
	}
	c.doom(open, anyTask)
	delete(c.submits, refused.id)
	for most, want := range map[int]string{1: "17", 2: "17 18.0", 9: "17 18.0 18.1 18.2"} {
		names, of := c.targets(most)
		if got := strings.Join(names, " "); got != want || len(of) != min(most+2, 6) {
			t.Errorf("at most %d: got %q for %d tasks, want %q", most, got, len(of), want)
		}
	}
	err := c.unheard()
	if want := "cancel 13 jobs of this batch (no answer yet): when their turn comes they do nothing; to cancel them: cancel 17 18.0 18.1 18.2 gr-c gr-d"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want that it ends with %q", err, want)
	}
	if clear(c.dooms.all); c.unheard() != nil {
		t.Error("nothing is left")
	}
}
