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
	case stageCheckpoints:
		from, to := t.from, t.to
		if t.checkpointsOf != nil {
			from, to = p.of(*t.checkpointsOf)
		}
		return p.partsOf(checkpoint, from, to, 0, nil)
	case stageUnneeded:
		return p.partsOf(unneeded, t.from, t.to, 0, nil)
	case stageWarm:
		return p.partsOf(warm, t.from, t.to, 0, func(c *clone) bool { return c.warmGoes(t) })
	}
	return p.clonesWhere(t.from, t.to, func(c *clone) bool { return c.goesIn(s, t) })
}

// warmGoes reports whether the warm parts of a clone may be evicted. Those of a clone that
// exceeds a limit on its own do not count for it.
func (c *clone) warmGoes(t target) bool {
	return c.hold == Free && (t.bytes == 0 || t.exempt(c) != ExceedsAll)
}

// has reports whether one of the target's stages is s, and the clone may be evicted in it.
func (t target) has(s stage, c *clone) bool { return slices.Contains(t.stages, s) && c.goesIn(s, t) }

// goesIn reports whether a clone may be evicted in stageIdle or stageProtected.
func (c *clone) goesIn(s stage, t target) bool {
	if c.hold == Working {
		return s == stageProtected && c.checkpoints == 0
	}
	return c.hold == Free && c.checkpoints == 0 && (t.exempt(c) == Free) != (s == stageProtected)
}

// evictable returns how much would be freed by evicting everything that may be.
func (p *planner) evictable() (all disk.Size) {
	for i := range p.clones {
		c := &p.clones[i]
		if c.gone {
			continue
		}
		var parts disk.Size
		checkpoints := 0
		for n, it := range p.items[c.first : c.first+len(c.Parts)] {
			if it.gone || it.class == never || it.class == warm && c.hold != Free {
				continue
			}
			parts = parts.Add(c.Parts[n].Size)
			if it.class == checkpoint {
				checkpoints++
			}
		}
		if (c.hold == Free || c.hold == Working) && checkpoints == c.checkpoints {
			parts = c.left
		}
		all = all.Add(parts)
	}
	return all
}

// reach returns how much can be evicted for a target at most. That includes the layers below
// checkpoints, which can go in the next round.
func (p *planner) reach(t target) (all disk.Size) {
	for i := t.from; i < t.to; i++ {
		c := &p.clones[i]
		if c.gone {
			continue
		}
		var parts, below disk.Size
		checkpoints := 0
		for n, it := range p.items[c.first : c.first+len(c.Parts)] {
			part := &c.Parts[n]
			switch {
			case it.gone:
			case it.class == checkpoint:
				checkpoints++
				parts = parts.Add(part.Size)
			case it.class == unneeded, it.class == warm && c.warmGoes(t):
				parts = parts.Add(part.Size)
			case part.hold() == Pinned && part.Kind != Checkpoint: // a workspace or a named checkpoint holds that
				below = below.Add(part.Size)
			}
		}
		if checkpoints > 0 {
			parts = parts.Add(below)
		}
		bare := *c
		bare.checkpoints -= checkpoints
		if t.has(stageIdle, &bare) || t.has(stageProtected, &bare) {
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
// Checkpoints do not hold a clone, but must be evicted before it, because they use its
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

// expire evicts the checkpoints past CHECKPOINT_TTL, and the clones and layers past TTL.
func (p *planner) expire() {
	checkpoints := 0
	for i := range p.clones {
		checkpoints += p.clones[i].checkpoints
	}
	ttl, all := p.lim.CheckpointTTL, len(p.clones)
	p.evictDue(p.partsOf(checkpoint, 0, all, ttl, nil), ttl, p.mostLate(checkpoints), p.evictPart,
		p.because(Expired, "it ended longer ago than CHECKPOINT_TTL="+days(ttl)))
	if ttl = p.lim.TTL; ttl <= 0 {
		return
	}
	idle := p.idleClones(0, all, func(c *clone) bool { return c.checkpoints == 0 && duration(p.age(c.used())) >= ttl })
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
			if part.Kind != Upper && (part.Kind != Checkpoint || p.items[c.first+n].gone) {
				continue
			}
			rest = rest.Sub(part.Size)
			h := Holder{Clone: c.Key, Repo: c.Repo, Subject: c.Subject, Volume: part.Volume, Size: part.Size, Unmeasured: part.Unmeasured, Held: part.hold().or(c.hold)}
			if part.Kind == Checkpoint {
				h.Checkpoint = part.ID
			}
			list = append(list, h)
		}
		held := c.hold
		if held == Free && c.checkpoints > 0 {
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
