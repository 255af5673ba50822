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
	stages   []stage
	excess   func() excess
	// checkpointsOf is the only subject whose checkpoints may be evicted; nil: all.
	checkpointsOf *string
}

func (p *planner) all(r Reason, stages []stage, e func() excess) target {
	return target{reason: r, to: len(p.clones), stages: stages, excess: e}
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
	inVain := t.reason != SubjectMaxSize && t.checkpointsOf == nil && t.excess().less(p.reach(t)).over()
	if t.bytes > 0 {
		p.relieveOfTooLarge(t)
		if !t.excess().over() {
			return // the others are within the limit: evict none of them for the mark
		}
	}
	enough := false
	for _, s := range t.stages {
		if s == stageCheckpoints && inVain || s.evictsClones() && enough {
			continue // no checkpoints for a goal out of reach, and no more clones for the mark
		}
		if p.evictIn(s, t, why) {
			enough = true
		}
	}
	if e := t.excess(); e.over() && !p.plan.More {
		p.plan.Missing = append(p.plan.Missing, Missing{Reason: t.reason, Subject: t.subject, Size: e.missing(), Text: text})
	}
}

// evictIn evicts what may go in a stage, until the mark is reached. It reports whether it stopped
// before that because a clone is too much for the mark.
func (p *planner) evictIn(s stage, t target, why uint16) (enough bool) {
	for c := range p.candidates(s, t) {
		e, n := t.excess(), c.number()
		if !e.above() || p.full() {
			return false
		}
		switch {
		case s.evictsClones():
			// A clone is expensive: don't evict it for the mark alone if that overshoots
			// the mark.
			if !e.over() && !e.less(p.clones[n].left).above() {
				return true
			}
			p.evictClone(n, why)
		case s == stageCheckpoints && t.reason != SubjectMaxSize:
			if !e.over() { // no checkpoints for the mark
				return false
			}
			p.evictPart(n, why)
			p.evictBelow(n, t, why)
		default:
			p.evictPart(n, why)
		}
	}
	return false
}

// evictBelow evicts the clone of a checkpoint that is gone, if that is still needed and nothing else
// is on it: what was saved of it for the checkpoint is worth less than the next checkpoint.
func (p *planner) evictBelow(n uint32, t target, why uint16) {
	owner := p.items[n].owner
	c := &p.clones[owner]
	if !t.excess().over() || p.full() {
		return
	}
	if t.has(stageIdle, c) || t.has(stageProtected, c) {
		p.evictClone(owner, why)
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
		own := ""
		if p.inv.Own.Bytes > 0 {
			own = fmt.Sprintf(" and the plugin's own files %s", Bytes(p.inv.Own.Bytes))
		}
		return fmt.Sprintf("the clones take %s%s, MAX_SIZE is %s", Bytes(p.used.Bytes), own, Bytes(p.lim.MaxSize))
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
				reason: SubjectMaxSize, bytes: limit, subject: subject, from: from, to: to, stages: ofSubject,
				excess: func() excess { return ofBytes(used-(p.freed.Bytes-before), limit) },
			})
		}
		from = to
	}
}
