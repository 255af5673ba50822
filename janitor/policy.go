package janitor

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Decide plans evictions so that the limits hold. It takes about 0.2 s for a million
// parts.
func Decide(inv Inventory, lim Limits) Plan {
	p := newPlanner(inv, lim)
	p.expire()
	p.subjects()
	if lim.MaxSize > 0 {
		whole := p.all(MaxSize, stageIdle, func() excess { return ofBytes(p.used.Bytes, lim.MaxSize) })
		whole.bytes = lim.MaxSize
		p.relieve(whole)
	}
	p.relieve(p.all(MinFree, stageProtected, func() excess { return ofFree(inv.Space, p.free(), lim.MinFree) }))
	room := p.all(NoSpace, stageProtected, func() excess { return ofRoom(inv.Space, p.free(), lim.Room) })
	if lim.guessedFor != nil {
		room.last, room.discardsOf = stageIdle, lim.guessedFor
	}
	p.relieve(room)
	if len(p.plan.Missing) > 0 {
		p.plan.Holders = p.holders()
	}
	p.plan.Evictions, p.plan.Frees, p.plan.Evictable = p.evictions(), p.freed, p.evictable()
	return p.plan
}

// mostEvictions bounds a plan. Each eviction is a transaction of a few milliseconds:
// after so many the inventory is outdated, and a new plan is better.
const mostEvictions = 10_000

// stage is a step of the eviction for an exceeded limit.
type stage int

const (
	// stageTooLarge evicts idle clones that exceed a limit in bytes on their own, each
	// after its discards.
	stageTooLarge stage = iota
	stageDiscards
	stageUnneeded
	stageWarm
	stageIdle
	// stageProtected evicts the idle clones that stageIdle spares.
	stageProtected
)

// planner numbers the clones in the order of their keys, and the parts of all clones in
// that order.
type planner struct {
	inv  Inventory
	lim  Limits
	now  int64
	plan Plan

	clones    []clone
	items     []item       // the parts
	perClass  [classes]int // how many parts each class has
	used      disk.Size    // counted for MAX_SIZE
	freed     disk.Size
	decisions []decision
	why       []why
}

// item is the planner's compact view of a part, because there may be a million.
type item struct {
	owner uint32 // its clone
	age   uint32 // seconds
	class class
	gone  bool
}

// class says when a part may be evicted.
type class uint8

const (
	never class = iota // held, or evicted only with its clone
	discard
	unneeded
	warm    // if its clone is idle
	classes // the number of classes
)

// decision is a planned eviction: of a part, or of a clone with its remaining parts.
type decision struct {
	n     uint32
	why   uint16
	whole bool
}

// why is the reason that several evictions share.
type why struct {
	reason   Reason
	text     string
	tooLarge bool // evicts a TooLarge clone, or one of its discards
}

// clone is the planner's state of a clone.
type clone struct {
	*Clone
	first    int       // the number of its first part
	left     disk.Size // its remaining size
	core     disk.Size // of all that every mount needs: stores, LFS objects, needed layers
	own      disk.Size // of the parts that are evicted only with the clone, or only while it is idle
	discards int       // remaining discards
	hold     Hold      // its own, or that of a part that prevents its eviction
	exempt   Hold      // JustMade or ExceedsAll: not evicted for MAX_SIZE
	alone    Hold      // likewise for SUBJECT_MAX_SIZE
	gone     bool
}

// counted returns the clone's size as counted for a limit from which it is exempt in this
// way.
func (c *clone) counted(exempt Hold) disk.Size {
	if exempt == ExceedsAll {
		return c.left.Sub(c.own)
	}
	return c.left
}

func newPlanner(inv Inventory, lim Limits) *planner {
	p := &planner{inv: inv, lim: lim, now: Stamp(inv.Now), clones: make([]clone, len(inv.Clones))}
	parts := 0
	for i, c := range inOrder(inv.Clones) {
		p.clones[i] = clone{Clone: c, first: parts}
		parts += len(c.Parts)
	}
	p.items = make([]item, parts)
	for i := range p.clones {
		c := &p.clones[i]
		p.summarize(i)
		p.used = p.used.Add(c.counted(c.exempt))
	}
	p.plan.Used, p.plan.Trash, p.plan.Space = p.used, inv.Trash, inv.Space
	return p
}

// inOrder returns the clones sorted by key, so that those of a subject are adjacent.
func inOrder(clones []Clone) []*Clone {
	list := make([]*Clone, len(clones))
	for i := range clones {
		list[i] = &clones[i]
	}
	byKey := func(a, b *Clone) int { return strings.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(list, byKey) {
		slices.SortFunc(list, byKey)
	}
	return list
}

// summarize computes the totals of a clone and its items.
func (p *planner) summarize(i int) {
	c := &p.clones[i]
	c.left, c.core, c.own, c.hold = c.Size, c.Size, c.Size, c.Held
	for n := range c.Parts {
		part := &c.Parts[n]
		c.left = c.left.Add(part.Size)
		class := never
		switch part.Kind {
		case Discard:
			c.discards++
			class = discard
		case Tree, GitLayer:
			if part.Needed {
				c.core = c.core.Add(part.Size)
			} else {
				class = unneeded
			}
		case Warm, Cache:
			class = warm
		}
		if part.Held != Free {
			class = never
		}
		if class == never || class == warm {
			c.own = c.own.Add(part.Size)
		}
		p.items[c.first+n] = item{uint32(i), p.age(part.Used), class, false}
		p.perClass[class]++
		// A layer below a discard is evicted with the clone, after the discard; so is a
		// part whose own eviction failed, unless it is a discard.
		switch {
		case part.Kind == Upper:
			c.hold = c.hold.and(part.Held.or(Leased))
		case part.Kind == Discard || part.Held != Pinned && part.Held != Failed:
			c.hold = c.hold.and(part.Held)
		}
	}
	if c.hold == Free && !c.Mounted && duration(p.age(c.Made)) < p.lim.Grace {
		c.exempt, c.alone = JustMade, JustMade
	}
	c.exempt = p.tooLarge(c, MaxSize, p.lim.MaxSize, c.exempt)
	c.alone = p.tooLarge(c, SubjectMaxSize, p.subjectMax(c.Subject), c.alone)
}

// age returns how many seconds ago a stamp was, 0 for one in the future.
func (p *planner) age(at int64) uint32 { return uint32(min(max(p.now-at, 0), math.MaxUint32)) }

func duration(age uint32) time.Duration { return time.Duration(age) * time.Second }

// free returns how much will be free after the trash and the planned evictions.
func (p *planner) free() disk.Size { return p.inv.Space.Free.Add(p.inv.Trash).Add(p.freed) }

// used returns when the clone was last used.
func (c *clone) used() int64 { return max(c.Used, c.Made) }

// because adds a reason, and returns its index for evictPart and evictClone.
func (p *planner) because(r Reason, text string) uint16 {
	p.why = append(p.why, why{reason: r, text: text})
	return uint16(len(p.why) - 1)
}

// part returns the part of a candidate, and its clone's number.
func (p *planner) part(n candidate) (owner uint32, part *Part) {
	owner = p.items[n.number()].owner
	c := &p.clones[owner]
	return owner, &c.Parts[int(n.number())-c.first]
}

// full reports whether the plan has mostEvictions. Such a plan does not list
// Missing.
func (p *planner) full() bool {
	p.plan.More = p.plan.More || len(p.decisions) >= mostEvictions
	return p.plan.More
}

// evictPart plans the eviction of a part.
func (p *planner) evictPart(n uint32, why uint16) {
	it := &p.items[n]
	owner, part := p.part(candidate(n))
	c := &p.clones[owner]
	it.gone = true
	before := c.counted(c.exempt)
	c.left = c.left.Sub(part.Size)
	switch it.class {
	case discard:
		c.discards--
	case warm:
		c.own = c.own.Sub(part.Size)
	}
	p.used, p.freed = p.used.Sub(before.Sub(c.counted(c.exempt))), p.freed.Add(part.Size)
	p.decisions = append(p.decisions, decision{n, why, false})
}

// evictClone plans the eviction of a clone with all its parts.
func (p *planner) evictClone(n uint32, why uint16) {
	c := &p.clones[n]
	c.gone = true
	p.used, p.freed = p.used.Sub(c.counted(c.exempt)), p.freed.Add(c.left)
	p.decisions = append(p.decisions, decision{n, why, true})
}

// evictions returns the decisions as Evictions.
func (p *planner) evictions() []Eviction {
	list := make([]Eviction, len(p.decisions))
	for i, g := range p.decisions {
		why := p.why[g.why]
		e := Eviction{Reason: why.reason, Text: why.text, TooLarge: why.tooLarge}
		if g.whole {
			c := &p.clones[g.n]
			e.Kind, e.Subject, e.Clone, e.Size, e.Unused = WholeClone, c.Subject, c.Key, c.left, duration(p.age(c.used()))
		} else {
			owner, part := p.part(candidate(g.n))
			c := &p.clones[owner]
			e.Kind, e.Subject, e.Clone, e.Size, e.Unused = part.Kind, c.Subject, c.Key, part.Size, duration(p.items[g.n].age)
			e.ID, e.Volume = part.ID, part.Volume
		}
		list[i] = e
	}
	return list
}
