package gpu

// Conflict records what other runs hold, as read after this run published a
// claim for g, which the pool holds. It describes the claim that conflicts with
// g, or returns "" if none does. Nil claims were not read and conflict with
// nothing.
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

// withTaken carries over how much of each known claim is in use where readings
// lack it: only a list of the device's processes shows that.
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

// rival returns a claim that a grant held on d cannot coexist with, or nil.
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
