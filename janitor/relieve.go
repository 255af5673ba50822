package janitor

import (
	"fmt"
	"strings"
)

// target is a limit and what may be evicted for it.
type target struct {
	reason   Reason
	bytes    int64 // the limit, if it is in bytes
	subject  string
	from, to int // range of clones
	last     stage
	excess   func() excess
	// discardsOf is the only subject whose discards may be evicted; nil: all.
	discardsOf *string
}

func (p *planner) all(r Reason, last stage, e func() excess) target {
	return target{reason: r, to: len(p.clones), last: last, excess: e}
}

// exempt returns why a clone is exempt from the limit; Free if it is not.
func (t target) exempt(c *clone) Hold {
	if t.reason == SubjectMaxSize {
		return c.alone
	}
	return c.exempt
}

// relieve evicts stage by stage, least recently used first, until the mark below the
// limit is reached. If the limit is still exceeded then, it adds to Missing.
func (p *planner) relieve(t target) {
	if !t.excess().over() {
		return
	}
	text := t.text(p)
	why := p.because(t.reason, text)
	first := stageDiscards
	if t.bytes > 0 {
		first = stageTooLarge
	}
	if t.last == stageProtected && t.excess().less(p.evictable()).over() {
		first = stageUnneeded // no discards for a goal out of reach
	}
	for s := first; s <= t.last && t.excess().above(); s++ {
		for c := range p.candidates(s, t) {
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
			// A clone is expensive: don't evict it for the mark alone if that overshoots
			// the mark.
			if !e.over() && !e.less(p.clones[n].left).above() {
				return
			}
			p.evictClone(n, why)
		}
		if s == stageTooLarge && !t.excess().over() {
			return // the others are within the limit: evict none of them for the mark
		}
	}
	if e := t.excess(); e.over() {
		p.plan.Missing = append(p.plan.Missing, Missing{Reason: t.reason, Subject: t.subject, Size: e.missing(), Text: text})
	}
}

// text describes how the limit is exceeded.
func (t target) text(p *planner) string {
	s := p.inv.Space
	free := p.free()
	switch t.reason {
	case SubjectMaxSize:
		return fmt.Sprintf("the clones of subject %q take %s, %s is %s", t.subject, Bytes(t.excess().Bytes+t.bytes), p.nameOf(t.reason, t.subject), Bytes(t.bytes))
	case MaxSize:
		return fmt.Sprintf("the clones take %s, MAX_SIZE is %s", Bytes(p.used.Bytes), Bytes(p.lim.MaxSize))
	case MinFree:
		return fmt.Sprintf("%s and %d inodes of %s and %d are free, MIN_FREE is %g%%",
			Bytes(free.Bytes), free.Inodes, Bytes(s.Total.Bytes), s.Total.Inodes, p.lim.MinFree*100)
	default:
		return fmt.Sprintf("%s and %d inodes are needed, %s and %d are free", Bytes(p.lim.Room.Bytes), p.lim.Room.Inodes, Bytes(free.Bytes), free.Inodes)
	}
}

// subjectMax returns the limit of a subject in bytes; zero means no limit.
func (p *planner) subjectMax(subject string) int64 {
	if own, ok := p.inv.SubjectMaxSize[subject]; ok {
		return own
	}
	return p.lim.SubjectMaxSize
}

// nameOf returns the name of a limit in bytes, for people.
func (p *planner) nameOf(r Reason, subject string) string {
	if _, own := p.inv.SubjectMaxSize[subject]; own && r == SubjectMaxSize {
		return "its own max_size"
	}
	return strings.ToUpper(string(r))
}

// subjects applies the limit of each subject, whose clones are adjacent.
func (p *planner) subjects() {
	if p.lim.SubjectMaxSize <= 0 && len(p.inv.SubjectMaxSize) == 0 {
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
		if limit := p.subjectMax(subject); limit > 0 {
			p.relieve(target{
				reason: SubjectMaxSize, bytes: limit, subject: subject, from: from, to: to, last: stageIdle,
				excess: func() excess { return ofBytes(used-(p.freed.Bytes-before), limit) },
			})
		}
		from = to
	}
}
