package janitor

// Use is what the parts of the plugin know of the use of a clone, or of a part of one. They decide nothing:
// hold alone says what that keeps from being evicted. The zero Use is of something that nobody uses.
type Use struct {
	Leased   bool // a container has it
	Ended    bool // a container that has it no longer still uses it, as the kernel says
	Kept     bool // a volume keeps it (mode=keep)
	Attended bool // a Create or a Mount waits for work on it
	Working  bool // a fetch or a build works on it
	// Busy is set for a clone that is in use for whatever reason, such as a workspace that stands on it.
	Busy bool
	// Below is set for a layer that a workspace or a checkpoint stands on, and for a checkpoint that something stands on
	// which the janitor does not evict before it: a workspace, or a checkpoint with a name.
	Below  bool
	failed bool // a recent eviction failed
}

// hold decides why something in this use can't be evicted. If several reasons apply it is the one that lasts longest.
func (u Use) hold() Hold {
	switch {
	case u.Ended:
		return Busy
	case u.Leased:
		return Leased
	case u.Kept:
		return Kept
	case u.Attended:
		return Pending
	case u.Working:
		return Working
	case u.Below:
		return Pinned
	case u.failed:
		return Failed
	}
	return Free
}

// hold decides why a part can't be evicted. A workspace without a lease is being made, or about to end.
func (p *Part) hold() Hold {
	switch h := p.Use.hold(); {
	case h != Free:
		return h
	case p.Named:
		return HasNamed
	case p.Kind == Upper:
		return Pending
	}
	return Free
}

// ownHold decides why a clone can't be evicted whatever becomes of its parts. One that is busy without a workspace
// has work in progress.
func (c *Clone) ownHold() Hold {
	if h := c.Use.hold(); h != Free && h != Failed || !c.Use.Busy {
		return h
	}
	for n := range c.Parts {
		if k := c.Parts[n].Kind; k == Upper || k == Checkpoint {
			return c.Use.hold()
		}
	}
	return Pending
}

// hold decides why a clone can't be evicted as a whole. Checkpoints do not hold it, but go before it. A layer below a
// checkpoint goes with the clone, after the checkpoint; so does a part whose own eviction failed, unless it is a checkpoint.
func (c *Clone) hold() Hold {
	h := c.ownHold()
	for n := range c.Parts {
		part := &c.Parts[n]
		if held := part.hold(); part.Kind == Checkpoint || part.Kind == Upper || held != Pinned && held != Failed {
			h = h.and(held)
		}
	}
	return h
}
