package gpu

// Conflict takes over what other runs hold, as it was read after this run had
// published a claim for g, which the pool holds, and says in words what of it
// stands against g; "" when nothing does. Claims of nil were not read, and
// nothing is known to stand against g.
func (p *Pool) Conflict(g Grant, claims []Claim) string {
	if claims == nil {
		return ""
	}
	p.observeClaims(p.withTaken(claims, nil))
	for _, id := range g.UUIDs {
		if d := p.device(id); d != nil {
			if c := d.rival(g.Share); c != nil {
				return "GPU " + d.label() + ": " + c.words()
			}
		}
	}
	return ""
}

// withTaken adds to claims that were known before how much of them is in use,
// where readings do not tell: only the processes on a device do.
func (p *Pool) withTaken(claims []Claim, readings []Reading) []Claim {
	known := append([]Claim(nil), claims...)
	for i := range known {
		c := &known[i]
		d := p.device(c.UUID)
		if d == nil || c.Attempt == "" || tells(readings, c.UUID) {
			continue
		}
		for k := range d.claims {
			if d.claims[k].Attempt == c.Attempt {
				c.Taken = max(c.Taken, d.claims[k].Taken)
			}
		}
	}
	return known
}

func tells(readings []Reading, id UUID) bool {
	for i := range readings {
		if readings[i].UUID == id {
			return readings[i].Listed
		}
	}
	return false
}

// rival is a claim beside which a grant that is held on d cannot stand, or nil.
func (d *device) rival(share bool) *Claim {
	for i := range d.claims {
		if c := &d.claims[i]; !share || !c.Share || d.mode == ComputeExclusive {
			return c
		}
	}
	if len(d.claims) > 0 && (d.free < 0 || d.free < d.promised) {
		return &d.claims[len(d.claims)-1]
	}
	return nil
}
