package cluster

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// A job gets another number of GPUs as a successor: a task of its own, which waits on its GPUs
// until the attempt before it has ended (engine.After). Only Begin lets it, and only the run
// says that, or one that finds its start in the ledger; without it the task gives up by itself.

// Begin lets a successor begin.
func (c *Cluster) Begin(uniID string) {
	c.post.put(func() {
		if e := c.live[uniID]; e != nil {
			c.letGo(e)
		}
	})
}

func (c *Cluster) letGo(e *entry) {
	if e.stop != nil || e.submit == nil {
		return
	}
	if err := (request{how: goAhead}).put(place{Submit: e.submit.dir, Task: e.n}); err != nil {
		c.Log.Warn().Err(err).Str("uni_id", e.UniID).Msg("begin")
	}
	e.beaten = time.Now() // it shows nothing while it waits
	c.wake(e)
}

// goAhead is the request that lets a successor begin.
const goAhead = "go"

// waits reports whether an attempt has never been let begin.
func (p place) waits(s status, uniID string) bool {
	if !p.After || readRequest(p).how == goAhead {
		return false
	}
	_, t := s.said(uniID)
	return t == nil || t.Running == nil
}

// holdEvery is how often a successor looks whether it may begin.
const holdEvery = 100 * time.Millisecond

// hold waits on the GPUs of a task until it may begin. It returns why it never may, or nil.
func (o *outer) hold(l *engine.Launch, t *task, here place) *wire.Record {
	t.Ready = true
	if t.put(l.Dir) != nil {
		_ = t.put(l.Dir)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	defer signal.Stop(term)
	tick, limit := time.NewTicker(holdEvery), time.After(l.After.Within)
	defer tick.Stop()
	never := func(why, text string) *wire.Record {
		return &wire.Record{Why: why, Err: text, Lost: true, Void: true, Uncharged: why == ""}
	}
	for over := false; ; {
		switch r := readRequest(here); {
		case r.how == goAhead:
			return nil
		case r.how != "":
			return never(r.why, "stopped before it started")
		case gone(l.Dir):
			return never("", "no run knows of it any more")
		case over:
			return never("", "nobody has let it begin on its GPUs within "+l.After.Within.String())
		}
		select {
		case b, ok := <-o.letters:
			if !ok || b == toldEnd {
				return never(state.WhyCluster, "ended by the cluster before it started")
			}
		case <-term:
			return never(state.WhyCluster, "ended by the cluster before it started")
		case <-limit:
			over = true
		case <-tick.C:
		}
	}
}

// gone reports whether an attempt's folder was removed: a run has found it, and no ledger its start.
func gone(dir string) bool {
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Spare returns for each of these how many GPUs are free on one node that would do for it, and
// whether jobs of anybody wait for their turn on such nodes.
func (c *Cluster) Spare(asks []engine.Ask) (free []int, waiting bool, err error) {
	nodes, err := Nodes(c.words)
	if err != nil {
		return nil, false, err
	}
	text, err := c.words.Waiting().output()
	if err != nil {
		return nil, false, err
	}
	queues, err := c.words.ReadWaiting(text)
	if err != nil {
		return nil, false, err
	}
	nodes = ours(nodes, c.Options)
	waiting = slices.ContainsFunc(queues, func(q string) bool {
		return q == "" || slices.ContainsFunc(nodes, func(n Node) bool { return slices.Contains(n.Parts, q) })
	})
	return spare(nodes, asks, c.Options), waiting, nil
}

// spare is Spare for nodes on which jobs of this run may start.
func spare(nodes []Node, asks []engine.Ask, options map[string]string) []int {
	free := make([]int, len(asks))
	for i, ask := range asks {
		models, err := Asked{Ask: ask, Options: options}.Suitable()
		if err != nil {
			continue
		}
		for _, n := range nodes {
			if len(models) == 0 || slices.ContainsFunc(models, n.has) {
				free[i] = max(free[i], n.GPUs-n.Used)
			}
		}
	}
	return free
}

// ours returns the open nodes of the partitions or queues that jobs are submitted to, and that
// have what the setting constraint asks for, as far as that is simple.
func ours(nodes []Node, options map[string]string) (some []Node) {
	var parts, features []string
	if list := cmp.Or(options["partition"], options["queue"]); list != "" {
		parts = strings.Split(list, ",")
	}
	if c := options["constraint"]; !strings.ContainsAny(c, "|[(*!") {
		features = strings.FieldsFunc(c, func(r rune) bool { return r == '&' || r == ',' })
	}
	for _, n := range nodes {
		in := n.Default
		for _, p := range parts {
			name, host, at := strings.Cut(p, "@")
			in = slices.Contains(n.Parts, name) && (!at || host == n.Name)
			if in {
				break
			}
		}
		lacks := slices.ContainsFunc(features, func(f string) bool { return !slices.Contains(strings.Split(n.Features, ","), f) })
		if n.Open && in && !lacks {
			some = append(some, n)
		}
	}
	return some
}

// has reports whether a node has GPUs of a model.
func (n Node) has(m Model) bool {
	if m.Feature != "" {
		return slices.Contains(strings.Split(n.Features, ","), m.Feature)
	}
	kinds := strings.FieldsFunc(n.Kinds, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.ContainsFunc(kinds, func(kind string) bool {
		rest, is := strings.CutPrefix(kind, m.Means)
		return is && (rest == "" || strings.ContainsAny(rest[:1], ":(")) // gpu:a10 is not gpu:a100
	})
}
