package janitor

import (
	"fmt"
	"time"
)

// TooLarge is a clone that is larger than a limit on its own. It is exempt while it is in
// use, and for Grace after that; then it is evicted before all others.
type TooLarge struct {
	Clone   string
	Repo    string
	Subject string
	Size    int64 // bytes
	Limit   int64
	Reason  Reason // max_size or subject_max_size
	// Setting is the name of the limit, for people.
	Setting string
	// Grace is how long it is exempt after its last use.
	Grace time.Duration
}

func (t TooLarge) String() string {
	return fmt.Sprintf("the clone of %s for subject %q takes %s, which is more than %s=%s on its own: it is evicted when nobody has used it for %v, and its next mount clones again; raise %s, or make its volumes with filter=blob:none, depth or sparse",
		t.Repo, t.Subject, Bytes(t.Size), t.Setting, Bytes(t.Limit), t.Grace, t.Setting)
}

// tooLarge adds a clone to the plan's TooLarge if it exceeds a limit on its own. It
// returns ExceedsAll if it does and is in use or was used within Grace, and otherwise the
// argument.
func (p *planner) tooLarge(c *clone, r Reason, limit int64, otherwise Hold) Hold {
	if !c.exceeds(limit) {
		return otherwise
	}
	p.plan.TooLarge = append(p.plan.TooLarge, p.describeTooLarge(c, r, limit))
	// It stays between successive mounts, because otherwise each would clone again.
	if c.hold != Free || duration(p.age(c.used())) < p.lim.Grace {
		return ExceedsAll
	}
	return otherwise
}

// exceeds reports whether the clone on its own exceeds a limit in bytes. A limit of 0 is
// none.
func (c *clone) exceeds(limit int64) bool { return limit > 0 && c.core.Bytes > limit }

func (p *planner) describeTooLarge(c *clone, r Reason, limit int64) TooLarge {
	return TooLarge{
		Clone: c.Key, Repo: c.Repo, Subject: c.Subject, Size: c.core.Bytes, Limit: limit, Reason: r, Grace: p.lim.Grace,
		Setting: p.nameOf(r, c.Subject),
	}
}

// evictTooLarge plans the eviction of a clone that exceeds the limit on its own, after
// that of its discards, which hold it.
func (p *planner) evictTooLarge(n uint32, t target) {
	why := p.because(t.reason, p.describeTooLarge(&p.clones[n], t.reason, t.bytes).String())
	p.why[why].tooLarge = true
	for d := range p.partsOf(discard, int(n), int(n)+1, 0, nil) {
		if p.full() {
			return
		}
		p.evictPart(d.number(), why)
	}
	p.evictClone(n, why)
}
