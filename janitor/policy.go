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
	p.mergedLast()
	p.subjects()
	if lim.MaxSize > 0 {
		whole := p.all(MaxSize, sparing, func() excess { return ofBytes(p.used.Bytes, p.budget) })
		whole.bytes = p.budget
		p.relieve(whole)
	}
	p.relieve(p.all(MinFree, everything, func() excess { return ofFree(inv.Space, p.free(), lim.MinFree) }))
	room := p.all(NoSpace, everything, func() excess { return ofRoom(inv.Space, p.free(), lim.Room) })
	if lim.guessedFor != nil {
		room.stages, room.checkpointsOf = sparing, lim.guessedFor
	}
	p.relieve(room)
	if len(p.plan.Missing) > 0 {
		p.plan.Holders = p.holders()
	}
	p.named()
	p.plan.Evictions, p.plan.Frees, p.plan.Evictable = p.evictions(), p.freed, p.evictable()
	return p.plan
}

// mostEvictions bounds a plan. Each eviction is a transaction of a few milliseconds:
// after so many the inventory is outdated, and a new plan is better.
const mostEvictions = 10_000

// stage is a step of the eviction for an exceeded limit. A stage depends on no other, so that they may come in any order.
type stage int

const (
	stageUnneeded stage = iota // unneeded trees and git layers
	stageWarm
	stageIdle
	stageProtected   // the idle clones that stageIdle spares
	stageCheckpoints // checkpoints, and each idle clone after the last checkpoint on it
)

// evictsClones reports whether whole clones go in a stage.
func (s stage) evictsClones() bool { return s == stageIdle || s == stageProtected }

// The orders of the stages. A checkpoint is the only thing that can't be fetched again, so it goes
// last, unless the subject that it belongs to has too much.
var (
	sparing    = []stage{stageUnneeded, stageWarm, stageIdle, stageCheckpoints}
	everything = []stage{stageUnneeded, stageWarm, stageIdle, stageProtected, stageCheckpoints}
	ofSubject  = []stage{stageCheckpoints, stageUnneeded, stageWarm, stageIdle}
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
	used      disk.Size    // of the clones, as counted for MAX_SIZE
	budget    int64        // what MAX_SIZE leaves for them, in bytes; at least 1, or 0 for no limit
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
	checkpoint
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
	tooLarge bool // evicts a TooLarge clone, or one of its checkpoints
}

// clone is the planner's state of a clone.
type clone struct {
	*Clone
	first       int       // the number of its first part
	left        disk.Size // its remaining size
	core        disk.Size // of all that every mount needs: stores, LFS objects, needed layers
	own         disk.Size // of the parts that are evicted only with the clone, or only while it is idle
	checkpoints int       // remaining checkpoints
	hold        Hold      // its own, or that of a part that prevents its eviction
	exempt      Hold      // JustMade or ExceedsAll: not evicted for MAX_SIZE
	alone       Hold      // likewise for SUBJECT_MAX_SIZE
	merges      bool      // a part has Merged
	gone        bool
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
	if lim.MaxSize > 0 {
		p.budget = max(lim.MaxSize-inv.Own.Bytes, 1)
	}
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
		p.plan.All = p.plan.All.Add(c.left)
	}
	p.plan.Used, p.plan.All = p.used.Add(inv.Own), p.plan.All.Add(inv.Own)
	p.plan.Trash, p.plan.Space = inv.Trash, inv.Space
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
	c.left, c.core, c.own, c.hold = c.Size, c.Size, c.Size, c.Clone.hold()
	last := lastUses(c.Parts)
	for n := range c.Parts {
		part := &c.Parts[n]
		c.left, c.merges = c.left.Add(part.Size), c.merges || len(part.Merged) > 0
		class := never
		switch part.Kind {
		case Checkpoint:
			c.checkpoints++
			class = checkpoint
		case Tree, GitLayer:
			if part.Needed {
				c.core = c.core.Add(part.Size)
			} else {
				class = unneeded
			}
		case Warm, Cache:
			class = warm
		}
		if part.hold() != Free {
			class = never
		}
		if class == never || class == warm {
			c.own = c.own.Add(part.Size)
		}
		p.items[c.first+n] = item{uint32(i), p.age(max(part.Used-int64(part.Depth), last[part.ID])), class, false}
		p.perClass[class]++
	}
	if c.hold == Free && !c.Mounted && duration(p.age(c.Made)) < p.lim.Grace {
		c.exempt, c.alone = JustMade, JustMade
	}
	c.exempt = p.tooLarge(c, MaxSize, p.budget, c.exempt)
	c.alone = p.tooLarge(c, SubjectMaxSize, p.subjectMax(c.Subject), c.alone)
}

// lastUses returns when the parts below others of a clone are taken to be used last, by ID: when what stands on them was,
// because they must go after it. Of those that were used in the same second, that with more parts below goes first.
func lastUses(parts []Part) map[string]int64 {
	var last map[string]int64
	for n := range parts {
		for _, id := range parts[n].Below {
			if last == nil {
				last = make(map[string]int64)
			}
			last[id] = max(last[id], parts[n].Used)
		}
	}
	return last
}

// mergedLast takes what a checkpoint has merged to be used a second after that, because it frees little before that is gone.
// For CHECKPOINT_TTL it does not count: in a chain that goes on there is always one that was merged lately.
func (p *planner) mergedLast() {
	for i := range p.clones {
		c := &p.clones[i]
		if !c.merges || c.gone {
			continue
		}
		items := p.items[c.first : c.first+len(c.Parts)]
		ages := make(map[string]uint32)
		for n, it := range items {
			if it.gone {
				continue
			}
			for _, id := range c.Parts[n].Merged {
				if age, ok := ages[id]; !ok || it.age < age {
					ages[id] = it.age
				}
			}
		}
		for n := range items {
			if age, ok := ages[c.Parts[n].ID]; ok && !items[n].gone {
				items[n].age = min(items[n].age, max(age, 1)-1)
			}
		}
	}
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
	case checkpoint:
		c.checkpoints--
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
