package jobspec

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// poolOf reads pool: {disk: 2}, which is the same as pool: disk=2.
func (p *proto) poolOf(n *yaml.Node) {
	if len(n.Content) != 2 {
		p.src.Problem(n.Line, n.Column, "write pool: disk, or pool: {disk: 2}", "pool must name exactly one pool")
		return
	}
	k, v := n.Content[0], n.Content[1]
	text, _, ok := p.src.Scalar(v, "pool: "+k.Value)
	if !ok {
		return
	}
	if t, ok := p.compile(k.Value+"="+text, k.Line, k.Column, "pool", expand.InJob); ok {
		p.Resources = append(p.Resources, expand.Resource{Key: "pool", Texts: []*expand.Text{t}})
	}
}

// parsePool parses disk, or disk=2.
func parsePool(s string) (use PoolUse, err error) {
	name, n, given := strings.Cut(s, "=")
	use = PoolUse{Name: name, N: 1}
	if given {
		use.N, err = source.ParseCount(n, 1)
	}
	return use, err
}

// checkPool refuses a pool that does not exist, or that is too small for the job.
func (p *proto) checkPool(d *draft) {
	t, use, pools := d.given["pool"], d.Pool, p.file.settings.Pools
	if t == nil || use.N == 0 {
		return
	}
	at := slices.IndexFunc(pools, func(q settings.Pool) bool { return q.Name == use.Name })
	if at >= 0 && use.N <= pools[at].Size {
		return
	}
	d.Pool = PoolUse{}
	if at >= 0 {
		p.src.Problem(t.Line, t.Col, "request less, or enlarge the pool in settings", "pool: the job requests %d of %s, which has %d", use.N, use.Name, pools[at].Size)
		return
	}
	names := make([]string, len(pools))
	for i, q := range pools {
		names[i] = q.Name
	}
	hint := "add settings: {pools: {" + use.Name + ": 4}}"
	if !settings.PoolName.MatchString(use.Name) {
		hint = "use letters, digits, _ and - in pool names"
	} else if len(names) > 0 {
		hint = source.DidYouMean(use.Name, names, "settings.pools has "+strings.Join(names, ", "))
	}
	p.src.Problem(t.Line, t.Col, hint, "pool: no such pool: %q", use.Name)
}
