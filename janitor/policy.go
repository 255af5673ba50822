package janitor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Decide plans what goes so that the limits hold. It takes about 0.2 s for a
// million parts.
func Decide(inv Inventory, lim Limits) Plan {
	p := newPlanner(inv, lim)
	p.expire()
	p.idle()
	p.stale()
	p.subjects()
	whole := p.all(MaxSize, stageIdle, func() excess { return ofBytes(p.used.Bytes, lim.MaxSize) }, lim.MaxSize > 0)
	whole.bytes = lim.MaxSize
	p.relieve(whole)
	p.relieve(p.all(MinFree, stageProtected, func() excess { return ofFree(inv.Space, p.free(), lim.MinFree) }, lim.MinFree > 0))
	room := p.all(NoSpace, stageProtected, func() excess { return ofRoom(inv.Space, p.free(), lim.Room) }, lim.Room != disk.Size{})
	if lim.guessedFor != nil {
		room.last, room.discardsOf = stageIdle, lim.guessedFor
	}
	p.relieve(room)
	if len(p.plan.Missing) > 0 {
		p.plan.Holders = p.holders()
	}
	p.plan.Evictions, p.plan.Frees = p.evictions(), p.freed
	return p.plan
}

// mostEvictions bounds a plan. Each is a transaction of a few milliseconds: after
// so many the facts are old, and a new plan is better.
const mostEvictions = 10_000

// stage is a step in which things go when a limit is exceeded.
type stage int

const (
	// stageTooLarge has the idle clones that exceed a limit in bytes on their own, each
	// after its discards.
	stageTooLarge stage = iota
	stageDiscards
	stageUnneeded
	stageWarm
	stageIdle
	// stageProtected has the idle clones that stageIdle leaves.
	stageProtected
)

// planner has the clones in order of subject and key, numbered so, and their parts
// numbered through in that order.
type planner struct {
	inv  Inventory
	lim  Limits
	now  int64
	plan Plan

	clones []clone
	items  []item    // the parts
	used   disk.Size // what counts for MAX_SIZE
	freed  disk.Size
	going  []going
	why    []why
}

// item is what the planner wants to know of a part when it passes over a million of
// them.
type item struct {
	bytes, inodes int64
	owner         uint32 // its clone
	age           uint32 // seconds
	class         class
	gone          bool
}

// class says when a part may go.
type class uint8

const (
	never class = iota // it is held, or goes only with its clone
	discard
	unneeded
	warm // if its clone is idle
)

// going is an eviction that is decided: of a part, or of a clone with all that is
// left of it.
type going struct {
	n     uint32
	why   uint16
	whole bool
}

// why is what evictions have in common.
type why struct {
	reason   Reason
	text     string
	tooLarge bool // the eviction is that of a TooLarge, or of a discard that stands on it
}

// clone is what the planner knows of one.
type clone struct {
	*Clone
	first    int       // the number of its first part
	left     disk.Size // all that is there
	core     disk.Size // what every mount needs
	own      disk.Size // what goes with the clone alone, or once the clone is idle
	discards int       // that are there
	hold     Hold      // its own, or one of a part that it can't go with
	exempt   Hold      // JustMade or ExceedsAll: it does not go for MAX_SIZE
	alone    Hold      // likewise for SUBJECT_MAX_SIZE
	gone     bool
}

// counted is what counts for a limit that the clone is exempt from in this way.
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
		p.look(i)
		p.used = p.used.Add(c.counted(c.exempt))
	}
	p.plan.Used, p.plan.Trash, p.plan.Space = p.used, inv.Trash, inv.Space
	return p
}

// inOrder returns the clones by key, so that those of a subject follow one another.
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

// look sums up a clone.
func (p *planner) look(i int) {
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
		p.items[c.first+n] = item{part.Size.Bytes, part.Size.Inodes, uint32(i), p.age(part.Used), class, false}
		// A layer under a discard goes with the clone, once the discard has gone; and
		// so does what could not be evicted alone, but for a discard.
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
	c.alone = p.tooLarge(c, SubjectMaxSize, p.lim.SubjectMaxSize, c.alone)
}

// age is how many seconds ago something was; what lies in the future was now.
func (p *planner) age(at int64) uint32 { return uint32(min(max(p.now-at, 0), math.MaxUint32)) }

func duration(age uint32) time.Duration { return time.Duration(age) * time.Second }

// free is what will be free.
func (p *planner) free() disk.Size { return p.inv.Space.Free.Add(p.inv.Trash).Add(p.freed) }

// used is when somebody last used the clone.
func (c *clone) used() int64 { return max(c.Used, c.Made) }

// because returns a reason for evictPart and evictClone.
func (p *planner) because(r Reason, text string) uint16 {
	p.why = append(p.why, why{reason: r, text: text})
	return uint16(len(p.why) - 1)
}

// part returns what a candidate of the parts stands for, and its clone's number.
func (p *planner) part(n candidate) (owner uint32, part *Part) {
	owner = p.items[n.number()].owner
	c := &p.clones[owner]
	return owner, &c.Parts[int(n.number())-c.first]
}

// full reports whether the plan has as many evictions as it may. Then nothing is
// said of what is missing.
func (p *planner) full() bool {
	p.plan.More = p.plan.More || len(p.going) >= mostEvictions
	return p.plan.More
}

// evictPart plans the eviction of a part.
func (p *planner) evictPart(n uint32, why uint16) {
	it := &p.items[n]
	c, size := &p.clones[it.owner], disk.Size{Bytes: it.bytes, Inodes: it.inodes}
	it.gone = true
	before := c.counted(c.exempt)
	c.left = c.left.Sub(size)
	switch it.class {
	case discard:
		c.discards--
	case warm:
		c.own = c.own.Sub(size)
	}
	p.used, p.freed = p.used.Sub(before.Sub(c.counted(c.exempt))), p.freed.Add(size)
	p.going = append(p.going, going{n, why, false})
}

// evictClone plans the eviction of a clone with all its parts.
func (p *planner) evictClone(n uint32, why uint16) {
	c := &p.clones[n]
	c.gone = true
	p.used, p.freed = p.used.Sub(c.counted(c.exempt)), p.freed.Add(c.left)
	p.going = append(p.going, going{n, why, true})
}

// evictions spells out what is decided.
func (p *planner) evictions() []Eviction {
	list := make([]Eviction, len(p.going))
	for i, g := range p.going {
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

// target is a limit and what may go for it.
type target struct {
	reason   Reason
	bytes    int64 // the limit, if it is one of bytes
	subject  string
	from, to int // clones
	last     stage
	excess   func() excess
	active   bool
	// discardsOf is the only subject whose discards may go; nil: all may.
	discardsOf *string
}

func (p *planner) all(r Reason, last stage, e func() excess, active bool) target {
	return target{reason: r, to: len(p.clones), last: last, excess: e, active: active}
}

// exempt says why the limit has a clone stay; Free if it does not.
func (t target) exempt(c *clone) Hold {
	if t.reason == SubjectMaxSize {
		return c.alone
	}
	return c.exempt
}

// relieve evicts, stage by stage and by least recent use, until the mark below the
// limit is reached; and says what is missing if the limit is still exceeded then.
func (p *planner) relieve(t target) {
	if !t.active || !t.excess().over() {
		return
	}
	text := t.text(p)
	why := p.because(t.reason, text)
	first := stageDiscards
	if t.bytes > 0 {
		first = stageTooLarge
	}
	if t.last == stageProtected && t.excess().less(p.evictable()).over() {
		first = stageUnneeded // work is not lost for what can't be reached
	}
	for s := first; s <= t.last && t.excess().above(); s++ {
		list := p.candidates(s, t)
		for c, ok := list.next(); ok; c, ok = list.next() {
			e, n := t.excess(), c.number()
			if !e.above() {
				break
			}
			if p.full() {
				return
			}
			if s == stageTooLarge {
				p.evictTooLarge(n, t)
				continue
			}
			if s < stageIdle {
				p.evictPart(n, why)
				continue
			}
			// A clone is dear: it does not go for the mark alone if that would be
			// overshot by it.
			if !e.over() && !e.less(p.clones[n].left).above() {
				return
			}
			p.evictClone(n, why)
		}
		if s == stageTooLarge && !t.excess().over() {
			return // the others are within the limit: none of them goes for the mark
		}
	}
	if e := t.excess(); e.over() {
		p.plan.Missing = append(p.plan.Missing, Missing{Reason: t.reason, Subject: t.subject, Size: e.missing(), Text: text})
	}
}

// text says how a limit is exceeded.
func (t target) text(p *planner) string {
	s := p.inv.Space
	free := p.free()
	switch t.reason {
	case SubjectMaxSize:
		return fmt.Sprintf("the clones of subject %q take %s, SUBJECT_MAX_SIZE is %s", t.subject, Bytes(t.excess().Bytes+p.lim.SubjectMaxSize), Bytes(p.lim.SubjectMaxSize))
	case MaxSize:
		return fmt.Sprintf("the clones take %s, MAX_SIZE is %s", Bytes(p.used.Bytes), Bytes(p.lim.MaxSize))
	case MinFree:
		return fmt.Sprintf("%s and %d inodes of %s and %d are free, MIN_FREE is %g%%",
			Bytes(free.Bytes), free.Inodes, Bytes(s.Total.Bytes), s.Total.Inodes, p.lim.MinFree*100)
	default:
		return fmt.Sprintf("%s and %d inodes are needed, %s and %d are free", Bytes(p.lim.Room.Bytes), p.lim.Room.Inodes, Bytes(free.Bytes), free.Inodes)
	}
}

// subjects keeps each subject below its limit. Its clones follow one another.
func (p *planner) subjects() {
	if p.lim.SubjectMaxSize <= 0 {
		return
	}
	for from := 0; from < len(p.clones); {
		subject := p.clones[from].Subject
		to, used := from, int64(0)
		for ; to < len(p.clones) && p.clones[to].Subject == subject; to++ {
			if c := &p.clones[to]; !c.gone {
				used += c.counted(c.alone).Bytes
			}
		}
		before := p.freed.Bytes
		p.relieve(target{
			reason: SubjectMaxSize, bytes: p.lim.SubjectMaxSize, subject: subject, from: from, to: to, last: stageIdle, active: true,
			excess: func() excess { return ofBytes(used-(p.freed.Bytes-before), p.lim.SubjectMaxSize) },
		})
		from = to
	}
}
