package clone

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Spec says which checkout of a clone is wanted.
type Spec struct {
	URL      volume.URL // as this volume spells it
	Ref      volume.Ref
	UID, GID uint32
	Refresh  volume.Refresh
}

// askTimeout ends a question to the remote. It is below the 30 s that the
// engine waits for a Mount after a plain `docker plugin enable`, so that the
// user reads our error and not the engine's.
const askTimeout = 20 * time.Second

// Answer is what the remote says of a ref now.
type Answer struct {
	head string // the remote's default branch, full name
	res  meta.Resolution
	// later is set when ls-refs can't tell: a commit, which the store or a
	// fetch has to know.
	later bool
}

// Ask asks the remote about s.Ref. When what is known is fresh enough there is no
// question, and the Answer is nil. A definite no is a *git.Error whose Kind is
// Definite.
func (c *Clone) Ask(ctx context.Context, s Spec) (*Answer, error) {
	if _, ok := c.fresh(s); ok {
		return nil, nil
	}
	a, err := c.ask(ctx, s)
	if err != nil {
		return nil, err
	}
	return &a, nil
}

// fresh returns the known resolution when s allows to use it without a question.
func (c *Clone) fresh(s Spec) (meta.Resolution, bool) {
	r, ok := c.Resolution(s.Ref)
	switch {
	case !ok:
		return r, false
	case r.Ref == "" && (s.Ref.Kind() == volume.RefSHA || s.Ref.MaybeAbbrev()):
		return r, true // a commit does not move
	case s.Refresh.Never:
		return r, true
	}
	return r, c.m.Now().Sub(r.At) < s.Refresh.Interval
}

// ask shares one ls-refs question between all who ask it at the same time.
func (c *Clone) ask(ctx context.Context, s Spec) (Answer, error) {
	var ours bool
	a, err := c.askShared(ctx, s, &ours)
	if git.KindOf(err) == git.KindTimeout && !ours {
		// We joined a question that was stuck at a server which may be back by
		// now: it deserves one of our own.
		return c.askShared(ctx, s, &ours)
	}
	return a, err
}

// askShared sets ours when it did not join a question that was asked already; it
// may be read when the error is the question's.
func (c *Clone) askShared(ctx context.Context, s Spec, ours *bool) (Answer, error) {
	key := strings.Join([]string{"ask", c.key, s.URL.String(), s.Ref.String()}, "\x00")
	return share(ctx, c.m, key, func(ctx context.Context) (Answer, error) {
		*ours = true
		_, end := c.begin("asking", s.URL.String())
		defer end()
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return c.askNow(ctx, s)
	})
}

func (c *Clone) askNow(ctx context.Context, s Spec) (Answer, error) {
	var names []string
	name := s.Ref.String()
	switch s.Ref.Kind() {
	case volume.RefFull:
		names = []string{name}
	case volume.RefName:
		names = []string{"refs/heads/" + name, "refs/tags/" + name}
	}
	refs, err := c.m.Git.LsRefs(ctx, s.URL.String(), names...)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{head: refs.Head, res: meta.Resolution{At: c.m.Now()}}
	switch s.Ref.Kind() {
	case volume.RefSHA:
		a.later, a.res.Pulled = true, name
		return a, nil
	case volume.RefDefault:
		id, ok := refs.IDs["HEAD"]
		if !ok {
			return Answer{}, git.RefNotFound(s.URL.String(), "HEAD")
		}
		a.res.Ref, a.res.Pulled, a.res.Commit = refs.Head, id, id
		return a, nil
	}
	for _, n := range names { // a branch before a tag, as git clone does
		if id, ok := refs.IDs[n]; ok {
			a.res.Ref, a.res.Pulled, a.res.Commit = n, id, id
			if peeled, ok := refs.IDs[n+"^{}"]; ok {
				a.res.Commit = peeled
			}
			return a, nil
		}
	}
	if s.Ref.MaybeAbbrev() {
		a.later, a.res.Pulled = true, strings.ToLower(name)
		return a, nil
	}
	return Answer{}, git.RefNotFound(s.URL.String(), name)
}

// resolve returns what s.Ref stands for now, with its commit in the store.
func (c *Clone) resolve(ctx context.Context, s Spec, known *Answer) (meta.Resolution, error) {
	if r, ok := c.fresh(s); ok {
		return r, nil
	}
	if known == nil {
		a, err := c.ask(ctx, s)
		if err != nil {
			return meta.Resolution{}, err
		}
		known = &a
	}
	a := *known
	if c.agrees(s.Ref, a) {
		r, _ := c.Resolution(s.Ref)
		return r, nil
	}
	if a.later {
		return c.resolveCommit(ctx, s, a)
	}
	extra := ""
	if !isFetchedAlways(a.res.Ref) {
		extra = a.res.Ref
		if extra == "" {
			extra = "HEAD" // detached
		}
	}
	for try := 0; ; try++ {
		store, refs, err := c.fetch(ctx, s, a.head, extra)
		if err != nil {
			return meta.Resolution{}, err
		}
		r, ok := lookUp(refs, a.res.Ref, c.m.Now())
		if !ok {
			return meta.Resolution{}, git.RefNotFound(s.URL.String(), s.Ref.String())
		}
		// A fetch that we joined may have begun before our question. The next
		// one has not: what it brought is the newest there is, even where the
		// remote has moved on since.
		if r.Pulled == a.res.Pulled || try > 0 {
			return c.record(s, store, r)
		}
	}
}

// agrees reports whether the store has what the remote says, and notes that it
// was asked.
func (c *Clone) agrees(ref volume.Ref, a Answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rec == nil || a.later || c.rec.Store.Head != a.head {
		return false
	}
	r, ok := c.rec.Store.Refs[ref.String()]
	if !ok || r.Ref != a.res.Ref || r.Pulled != a.res.Pulled {
		return false
	}
	r.At = a.res.At
	c.rec.Store.Refs[ref.String()] = r
	return true
}

// resolveCommit finds a full or abbreviated commit ID: in the store, after a
// fetch of all branches and tags, or, a full one, after asking for it by name.
func (c *Clone) resolveCommit(ctx context.Context, s Spec, a Answer) (meta.Resolution, error) {
	rev := a.res.Pulled
	fetches := []string{""}
	if s.Ref.Kind() == volume.RefSHA {
		fetches = append(fetches, rev)
	}
	r, ok, err := c.commit(ctx, rev)
	for _, extra := range fetches {
		if err != nil || ok {
			break
		}
		if _, _, err := c.fetch(ctx, s, a.head, extra); err != nil {
			return meta.Resolution{}, err
		}
		r, ok, err = c.commit(ctx, rev)
	}
	switch {
	case err != nil:
		return meta.Resolution{}, err
	case !ok:
		return meta.Resolution{}, git.RefNotFound(s.URL.String(), s.Ref.String())
	}
	return c.record(s, c.store(), r)
}

// commit looks rev up in the store, if there is one.
func (c *Clone) commit(ctx context.Context, rev string) (r meta.Resolution, ok bool, err error) {
	if !c.Status().Cloned {
		return r, false, nil
	}
	id, ok, err := c.m.Git.Commit(ctx, c.storeDir(), rev)
	return meta.Resolution{Pulled: id, Commit: id, At: c.m.Now()}, ok, err
}

// store returns a copy of the store's record.
func (c *Clone) store() meta.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rec == nil {
		return meta.Store{}
	}
	return c.rec.Copy().Store
}

// record adds a resolution to the clone's record, unless the store has been
// fetched again since: then it is for that fetch to say.
func (c *Clone) record(s Spec, at meta.Store, r meta.Resolution) (meta.Resolution, error) {
	c.mu.Lock()
	if c.rec == nil {
		c.mu.Unlock()
		return r, fmt.Errorf("clone %s was removed meanwhile: run it again", c.key)
	}
	if c.rec.Store.Snapshot != at.Snapshot && r.Ref != "" {
		if newer, ok := c.rec.Store.Refs[s.Ref.String()]; ok {
			c.mu.Unlock()
			return newer, nil
		}
	}
	c.rec.Store.Refs[s.Ref.String()] = r
	c.mu.Unlock()
	return r, c.save()
}

// lookUp finds a full ref among those of the store.
func lookUp(refs []git.PackedRef, name string, now time.Time) (meta.Resolution, bool) {
	stored := storedAs(name)
	for _, r := range refs {
		if r.Name == stored {
			res := meta.Resolution{Ref: name, Pulled: r.ID, Commit: r.ID, At: now}
			if r.Peeled != "" {
				res.Commit = r.Peeled
			}
			return res, true
		}
	}
	return meta.Resolution{}, false
}
