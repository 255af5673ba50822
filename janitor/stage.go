package janitor

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// candidates lists what may be evicted in a stage, least recently used first.
func (p *planner) candidates(s stage, t target) iter.Seq[candidate] {
	switch s {
	case stageTooLarge:
		return p.idleClones(t.from, t.to, func(c *clone) bool { return c.exceeds(t.bytes) && t.exempt(c) == Free })
	case stageDiscards:
		from, to := t.from, t.to
		if t.discardsOf != nil {
			from, to = p.of(*t.discardsOf)
		}
		return p.partsOf(discard, from, to, 0, nil)
	case stageUnneeded:
		return p.partsOf(unneeded, t.from, t.to, 0, nil)
	case stageWarm:
		return p.partsOf(warm, t.from, t.to, 0, func(c *clone) bool {
			// Warm parts of a clone that exceeds a limit on its own do not count for it.
			return c.hold == Free && (t.bytes == 0 || t.exempt(c) != ExceedsAll)
		})
	}
	return p.clonesWhere(t.from, t.to, func(c *clone) bool {
		if c.hold == Working {
			return s == stageProtected && c.discards == 0
		}
		return c.hold == Free && c.discards == 0 && (t.exempt(c) == Free) != (s == stageProtected)
	})
}

// evictable returns how much would be freed by evicting everything that may be.
func (p *planner) evictable() (all disk.Size) {
	for i := range p.clones {
		c := &p.clones[i]
		if c.gone {
			continue
		}
		var parts disk.Size
		discards := 0
		for n, it := range p.items[c.first : c.first+len(c.Parts)] {
			if it.gone || it.class == never || it.class == warm && c.hold != Free {
				continue
			}
			parts = parts.Add(c.Parts[n].Size)
			if it.class == discard {
				discards++
			}
		}
		if (c.hold == Free || c.hold == Working) && discards == c.discards {
			parts = c.left
		}
		all = all.Add(parts)
	}
	return all
}

// of returns the range of a subject's clones.
func (p *planner) of(subject string) (from, to int) {
	is := func(c clone) bool { return c.Subject == subject }
	if from = slices.IndexFunc(p.clones, is); from < 0 {
		return 0, 0
	}
	for to = from; to < len(p.clones) && is(p.clones[to]); to++ {
	}
	return from, to
}

// idleClones lists the clones in a range that nothing holds and for which may is true.
// Discards do not hold a clone, but must be evicted before it, because they use its
// layers.
func (p *planner) idleClones(from, to int, may func(*clone) bool) iter.Seq[candidate] {
	return p.clonesWhere(from, to, func(c *clone) bool { return c.hold == Free && may(c) })
}

// clonesWhere lists the clones in a range for which may is true.
func (p *planner) clonesWhere(from, to int, may func(*clone) bool) iter.Seq[candidate] {
	var list []candidate
	for i := from; i < to; i++ {
		if c := &p.clones[i]; !c.gone && may(c) {
			list = append(list, newCandidate(p.age(c.used()), i))
		}
	}
	return leastRecent(list, nil)
}

// partsOf lists the parts of a class, unused for at least the given time, of the clones
// in a range for which may is true; nil means all.
func (p *planner) partsOf(c class, from, to int, unused time.Duration, may func(*clone) bool) iter.Seq[candidate] {
	if from == to {
		return leastRecent(nil, nil)
	}
	last := &p.clones[to-1]
	first, end := p.clones[from].first, last.first+len(last.Parts)
	list := make([]candidate, 0, min(p.perClass[c], end-first)) // not grown, which would touch more memory
	for n := range p.items[first:end] {
		it := &p.items[first+n]
		if it.class != c || it.gone || duration(it.age) < unused {
			continue
		}
		if owner := &p.clones[it.owner]; owner.gone || may != nil && !may(owner) {
			continue
		}
		list = append(list, newCandidate(it.age, first+n))
	}
	return leastRecent(list, p.part)
}

// expire evicts the discards past DISCARD_TTL, and the clones and layers past TTL.
func (p *planner) expire() {
	discards := 0
	for i := range p.clones {
		discards += p.clones[i].discards
	}
	ttl, all := p.lim.DiscardTTL, len(p.clones)
	p.evictDue(p.partsOf(discard, 0, all, ttl, nil), ttl, p.mostLate(discards), p.evictPart,
		p.because(Expired, "it ended longer ago than DISCARD_TTL="+days(ttl)))
	if ttl = p.lim.TTL; ttl <= 0 {
		return
	}
	idle := p.idleClones(0, all, func(c *clone) bool { return c.discards == 0 && duration(p.age(c.used())) >= ttl })
	p.evictDue(idle, ttl, p.mostLate(all), p.evictClone, p.because(TTL, "nobody used it for longer than TTL="+days(ttl)))
	// All layers, however late, because no data is lost.
	p.evictDue(p.partsOf(unneeded, 0, all, ttl, nil), ttl, math.MaxInt, p.evictPart,
		p.because(Unneeded, "nothing needed it for longer than TTL="+days(ttl)))
}

// mostLate returns how many late clones or parts of a total may be evicted.
func (p *planner) mostLate(total int) int {
	if p.lim.lateDone {
		return 0
	}
	return max(total/lateShare, 1)
}

// evictDue evicts a list of clones or parts that are due, but at most mostLate late ones.
func (p *planner) evictDue(list iter.Seq[candidate], ttl time.Duration, mostLate int, evict func(n uint32, why uint16), why uint16) {
	late := 0
	for c := range list {
		if p.full() {
			return
		}
		if c.age() > ttl+lateAfter {
			if late++; late > mostLate {
				p.plan.Late++
				continue
			}
		}
		evict(c.number(), why)
	}
}

// holders lists the clones and parts that can't be evicted and count for a limit that
// stays exceeded.
func (p *planner) holders() []Holder {
	var list []Holder
	for i := range p.clones {
		c := &p.clones[i]
		if c.gone || !slices.ContainsFunc(p.plan.Missing, func(m Missing) bool {
			return m.Reason != SubjectMaxSize || m.Subject == c.Subject
		}) {
			continue
		}
		rest := c.left
		for n := range c.Parts {
			part := &c.Parts[n]
			if part.Kind != Upper && (part.Kind != Discard || p.items[c.first+n].gone) {
				continue
			}
			rest = rest.Sub(part.Size)
			list = append(list, Holder{
				Clone: c.Key, Repo: c.Repo, Subject: c.Subject, Volume: part.Volume, Size: part.Size, Held: part.Held.or(c.hold),
			})
		}
		held := c.hold
		if held == Free && c.discards > 0 {
			held = Pinned
		}
		if held = held.or(c.exempt).or(c.alone); held != Free {
			list = append(list, Holder{Clone: c.Key, Repo: c.Repo, Subject: c.Subject, Size: rest, Held: held})
		}
	}
	sortHolders(list)
	return list
}

// days formats a duration for people: in whole days from two days on.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Second).String()
}
