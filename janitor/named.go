package janitor

import (
	"fmt"

	"github.com/helmdeck/repos/internal/disk"
)

// Named says how much of a limit checkpoints with names keep, with the clones that only they keep. Eviction frees nothing of
// it, so the operator hears of it before the limit is exceeded.
type Named struct {
	Reason      Reason // max_size or subject_max_size
	Subject     string // of a subject's limit
	Checkpoints int
	Size, Limit int64  // bytes
	Setting     string // the name of the limit, for people
}

// NamedShare is how much of a limit checkpoints with names may keep without a word: one part of two. The rest is for what is
// in use, and for what makes the next mounts fast.
const NamedShare = 2

func (n Named) String() string {
	whose := ""
	if n.Subject != "" {
		whose = fmt.Sprintf(" of subject %q", n.Subject)
	}
	return fmt.Sprintf("%d checkpoints with names%s, and the clones that they need, keep %s of %s=%s, and nothing of that is ever evicted: "+
		"remove those that are no longer needed (docker repos checkpoints ls, docker repos checkpoints rm)", n.Checkpoints, whose, Bytes(n.Size), n.Setting, Bytes(n.Limit))
}

// named adds the limits of which checkpoints with names keep much.
func (p *planner) named() {
	all := Named{Reason: MaxSize, Limit: p.lim.MaxSize, Setting: p.nameOf(MaxSize, "")}
	one := Named{Reason: SubjectMaxSize}
	for i := range p.clones {
		c := &p.clones[i]
		if i == 0 || c.Subject != p.clones[i-1].Subject { // those of a subject are adjacent
			p.addNamed(one)
			one = Named{Reason: SubjectMaxSize, Subject: c.Subject, Limit: p.subjectMax(c.Subject), Setting: p.nameOf(SubjectMaxSize, c.Subject)}
		}
		n, size := p.keptByNamed(c)
		all.Checkpoints, one.Checkpoints = all.Checkpoints+n, one.Checkpoints+n
		all.Size, one.Size = all.Size+size.Bytes, one.Size+size.Bytes
	}
	p.addNamed(one)
	p.addNamed(all)
}

// addNamed adds a limit if checkpoints with names keep much of it.
func (p *planner) addNamed(n Named) {
	if n.Limit > 0 && n.Checkpoints > 0 && n.Size >= n.Limit/NamedShare {
		p.plan.Named = append(p.plan.Named, n)
	}
}

// keptByNamed returns how many checkpoints of a clone have names, and what they keep: themselves, and the rest of the clone
// that can't be evicted, if nothing else holds it.
func (p *planner) keptByNamed(c *clone) (n int, size disk.Size) {
	var free disk.Size
	for i := range c.Parts {
		part, it := &c.Parts[i], p.items[c.first+i]
		switch {
		case it.gone: // it is not in c.left
		case part.Named:
			n, size = n+1, size.Add(part.Size)
		case it.class == checkpoint || it.class == unneeded:
			free = free.Add(part.Size)
		}
	}
	switch {
	case n == 0 || c.gone:
		return 0, disk.Size{}
	case c.hold == HasNamed:
		return n, c.left.Sub(free)
	}
	return n, size
}
