package meta

// interner keeps one copy of equal strings while records are read: the records of a clone
// repeat its key, commits and refs, and those of many clones the rest.
type interner map[string]string

func (i interner) one(list ...*string) {
	for _, s := range list {
		if known, ok := i[*s]; ok {
			*s = known
		} else {
			i[*s] = *s
		}
	}
}

func (i interner) clone(c *Clone) {
	i.one(&c.Key, &c.Subject, &c.Repo)
	for n := range c.Recent {
		i.one((*string)(&c.Recent[n].Options))
	}
	for name, s := range c.Stores {
		i.one(&s.Format, &s.Snapshot, &s.Head)
		for ref, r := range s.Refs {
			i.one(&r.Ref, &r.Pulled, &r.Commit)
			s.Refs[ref] = r
		}
		c.Stores[name] = s
	}
}

func (i interner) layer(l *Layer) {
	i.one(&l.Clone, &l.ID, &l.Boot, &l.Commit, &l.Store, &l.Shape, &l.Snapshot, &l.Modules)
	for n := range l.Chain {
		i.one(&l.Chain[n])
	}
}
