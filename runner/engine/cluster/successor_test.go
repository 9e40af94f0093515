package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// succeeding is prepared with a successor.
func succeeding(t *testing.T, within time.Duration) (*engine.Launch, place) {
	dir := t.TempDir()
	s := &submit{dir: filepath.Join(dir, "0badcafe")}
	l := &engine.Launch{
		Identity: engine.Identity{UniID: "u1", Job: "j", Dir: filepath.Join(dir, "u1")}, Ask: &engine.Ask{GPUs: 2}, Key: "k",
		After: &engine.After{UniID: "u0", Within: within},
	}
	if err := os.Mkdir(l.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := preparer().prepare(s, []*engine.Launch{l}); err != nil {
		t.Fatal(err)
	}
	st, _ := readStatus(l.Dir)
	p, ok := st.place()
	if !ok || !p.After {
		t.Fatalf("its place is %+v", p)
	}
	return l, p
}

// A successor says that it has its GPUs, and begins only if it is told to.
func TestHold(t *testing.T) {
	ask := func(r request) func(*engine.Launch, place, *outer) {
		return func(_ *engine.Launch, p place, _ *outer) { _ = r.put(p) }
	}
	for _, tt := range []struct {
		name   string
		within time.Duration
		do     func(*engine.Launch, place, *outer)
		want   *wire.Record // nil if it begins
	}{
		{"go", time.Minute, ask(request{how: goAhead}), nil},
		{"stop", time.Minute, ask(request{how: "kill", why: state.WhyResize}), &wire.Record{Why: state.WhyResize}},
		{"the cluster ends it", time.Minute, func(_ *engine.Launch, _ place, o *outer) { o.letters <- toldEnd }, &wire.Record{Why: state.WhyCluster}},
		{"its outer process is killed", time.Minute, func(_ *engine.Launch, _ place, o *outer) { close(o.letters) }, &wire.Record{Why: state.WhyCluster}},
		{"nobody says anything", time.Millisecond, func(*engine.Launch, place, *outer) {}, &wire.Record{Uncharged: true}},
		{"its folder is removed", time.Minute, func(l *engine.Launch, _ place, _ *outer) { _ = os.RemoveAll(l.Dir) }, &wire.Record{Uncharged: true}},
		{"go at the last moment", 0, ask(request{how: goAhead}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, p := succeeding(t, tt.within)
			o := &outer{letters: make(chan byte, 1)}
			if tt.within == 0 {
				tt.do(l, p, o)
			}
			over := make(chan *wire.Record, 1)
			go func() { over <- o.hold(l, &task{UniID: "u1", Host: "node1", GPUs: []int{2, 3}}, p) }()
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				st, _ := readStatus(l.Dir)
				if _, begun := st.said("u1"); begun != nil && begun.Ready && slices.Equal(begun.GPUs, []int{2, 3}) {
					break
				}
				if time.Now().After(end) {
					t.Fatal("it does not say that it is ready")
				}
			}
			if tt.within > 0 {
				tt.do(l, p, o)
			}
			got := <-over
			if (got == nil) != (tt.want == nil) || got != nil && (got.Why != tt.want.Why || got.Uncharged != tt.want.Uncharged || !got.Void || !got.Lost || got.Err == "") {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A successor has not begun, for who looks at its folder, until it was let begin.
func TestTraceSuccessor(t *testing.T) {
	l, p := succeeding(t, time.Minute)
	kind := Kind{named{name: "slurm"}}
	begun := func(want bool) {
		t.Helper()
		if got, err := kind.Trace(l.Dir, "u1"); err != nil || got.Began != want || (got.Start.Kind == state.KindStart) != want {
			t.Errorf("begun %v: got %+v, %v", want, got, err)
		}
	}
	begun(false)
	Task := &task{UniID: "u1", Host: "node1", Ready: true}
	if err := Task.put(l.Dir); err != nil {
		t.Fatal(err)
	}
	begun(false)
	_ = request{how: goAhead}.put(p)
	begun(true)
	_ = request{how: "term"}.put(p) // before it ran, if it ever did
	begun(false)
	Task.Running = &engine.Running{PID: 7}
	if err := Task.put(l.Dir); err != nil {
		t.Fatal(err)
	}
	begun(true)
}

// Who takes on a successor by its start in the ledger lets it begin, unless it was told something.
func TestAdoptSuccessor(t *testing.T) {
	for _, told := range []request{{}, {how: "term", why: state.WhyCancelled}} {
		l, p := succeeding(t, time.Minute)
		if told.how != "" {
			_ = told.put(p)
		}
		c, e := &Cluster{submits: map[string]*submit{"0badcafe": {dir: p.Submit}}}, &entry{Identity: l.Identity, adopted: true}
		st, _ := readStatus(l.Dir)
		if c.find(e, st); told.how == "" {
			if told.how = goAhead; time.Since(e.beaten) > deadAfter {
				t.Error("it counts as dead before it can show anything")
			}
		}
		if got := readRequest(p); got.how != told.how || got.why != told.why {
			t.Errorf("it was told %+v, want %+v", got, told)
		}
	}
}

// GPUs count that are free on one open node in the partition, of the right model.
func TestSpare(t *testing.T) {
	nodes := []Node{
		{Name: "n1", Open: true, Parts: []string{"gpu"}, Default: true, GPUs: 4, Used: 1, Features: "a100,ib", Kinds: "gpu:a100:4"},
		{Name: "n2", Open: true, Parts: []string{"gpu", "big"}, Default: true, GPUs: 8, Used: 6, Features: "v100", Kinds: "gpu:v100:8"},
		{Name: "n3", Parts: []string{"gpu", "big"}, Default: true, GPUs: 8},
		{Name: "n4", Open: true, Parts: []string{"big"}, GPUs: 8, Used: 1, Features: "a100", Kinds: "gpu:a100:8"},
	}
	for _, tt := range []struct {
		options string
		ask     engine.Ask
		want    int
	}{
		{"", engine.Ask{}, 3},
		{"partition=big", engine.Ask{}, 7},
		{"partition=gpu,big", engine.Ask{}, 7},
		{"partition=none", engine.Ask{}, 0},
		{"queue=big@n2", engine.Ask{}, 2},
		{"constraint=v100", engine.Ask{}, 2},
		{"constraint=a100&ib", engine.Ask{}, 3},
		{"constraint=[a100|v100]", engine.Ask{}, 3},
		{"models.v=gpu:v100", engine.Ask{Models: []string{"v"}}, 2},
		{"models.v=constraint=v100", engine.Ask{Models: []string{"v"}}, 2},
		{"models.v=gpu:v100", engine.Ask{Models: []string{"a"}}, 0},
		{"models.v=gpu:v10", engine.Ask{Models: []string{"v"}}, 0},
		{"models.v=gpu:v100 16GiB;models.a=gpu:a100 40GiB", engine.Ask{GPUMemory: 20 * gpu.GiB}, 3},
	} {
		options := map[string]string{}
		for pair := range strings.SplitSeq(tt.options, ";") {
			key, value, _ := strings.Cut(pair, "=")
			options[key] = value
		}
		if got := spare(ours(nodes, options), []engine.Ask{tt.ask}, options); got[0] != tt.want {
			t.Errorf("%s, %+v: %d are free, want %d", tt.options, tt.ask, got[0], tt.want)
		}
	}
}
