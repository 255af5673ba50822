package janitor

import (
	"fmt"
	"time"
)

// TooLarge is a clone that is larger than a limit on its own. It is exempt while it is in
// use, and for Grace after that or after it was made; then it is evicted before all others.
type TooLarge struct {
	Clone   string
	Repo    string
	Subject string
	Size    int64 // bytes
	Limit   int64
	Reason  Reason // max_size or subject_max_size
	// Setting is the name of the limit, for people. Own is what of it the plugin's own files
	// take, in bytes.
	Setting string
	Own     int64
	// Grace is how long it is exempt after its last use.
	Grace time.Duration
	// Stays is set if checkpoints with names keep it.
	Stays bool
}

func (t TooLarge) String() string {
	own := ""
	if t.Own > 0 {
		own = fmt.Sprintf(" (with %s for the plugin's own files)", Bytes(t.Own))
	}
	if t.Stays {
		return fmt.Sprintf("the clone of %s for subject %q takes %s, which is more than %s=%s%s on its own, and it stays, because it has checkpoints with names: raise %s, or remove these checkpoints",
			t.Repo, t.Subject, Bytes(t.Size), t.Setting, Bytes(t.Limit), own, t.Setting)
	}
	return fmt.Sprintf("the clone of %s for subject %q takes %s, which is more than %s=%s%s on its own: it is evicted when nobody has used it for %v, and its next mount clones again; raise %s, or make its volumes with filter=blob:none, depth or sparse",
		t.Repo, t.Subject, Bytes(t.Size), t.Setting, Bytes(t.Limit), own, t.Grace, t.Setting)
}

// tooLarge adds a clone to the plan's TooLarge if it exceeds a limit on its own. It
// returns ExceedsAll if it does and is in use, or was made or used within largeGrace, and
// Free if not. It returns the argument, which may be JustMade, for a clone within the limit.
func (p *planner) tooLarge(c *clone, r Reason, limit int64, otherwise Hold) Hold {
	if !c.exceeds(limit) {
		return otherwise
	}
	p.plan.TooLarge = append(p.plan.TooLarge, p.describeTooLarge(c, r, limit))
	left := largeGrace
	if c.hold == Free {
		left -= duration(p.age(c.used()))
	}
	if left > 0 && (p.plan.Again == 0 || left < p.plan.Again) {
		p.plan.Again = left
	}
	if left > 0 {
		return ExceedsAll
	}
	return Free
}

// exceeds reports whether the clone on its own exceeds a limit in bytes. A limit of 0 is
// none.
func (c *clone) exceeds(limit int64) bool { return limit > 0 && c.core.Bytes > limit }

func (p *planner) describeTooLarge(c *clone, r Reason, limit int64) TooLarge {
	l := TooLarge{
		Clone: c.Key, Repo: c.Repo, Subject: c.Subject, Size: c.core.Bytes, Limit: limit, Reason: r, Grace: largeGrace,
		Setting: p.nameOf(r, c.Subject), Stays: c.hold == HasNamed,
	}
	if r == MaxSize {
		l.Limit, l.Own = p.lim.MaxSize, p.inv.Own.Bytes
	}
	return l
}

// relieveOfTooLarge evicts the idle clones that exceed a limit in bytes on their own, until the mark below the limit is
// reached: whatever else goes, the limit can't hold with them.
func (p *planner) relieveOfTooLarge(t target) {
	for c := range p.idleClones(t.from, t.to, func(c *clone) bool { return c.exceeds(t.bytes) && t.exempt(c) == Free }) {
		if !t.excess().above() || p.full() {
			return
		}
		p.evictTooLarge(c.number(), t)
	}
}

// evictTooLarge plans the eviction of a clone that exceeds the limit on its own, after
// that of its checkpoints, which hold it.
func (p *planner) evictTooLarge(n uint32, t target) {
	why := p.because(t.reason, p.describeTooLarge(&p.clones[n], t.reason, t.bytes).String())
	p.why[why].tooLarge = true
	for d := range p.partsOf(checkpoint, int(n), int(n)+1, 0, nil) {
		if p.full() {
			return
		}
		p.evictPart(d.number(), why)
	}
	p.evictClone(n, why)
}
