package clone

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Spec says which checkout of a clone is wanted.
type Spec struct {
	URL      volume.URL // as this volume spells it
	Ref      volume.Ref
	History  volume.History
	Files    volume.Files
	UID, GID uint32
	Refresh  volume.Refresh
	// StaleIfError is how long ago the remote may last have agreed for its
	// answer to be used when it does not answer now.
	StaleIfError time.Duration
	Credential   string // the name of one, or empty for the one that fits
	// Pin, of a submodule, are the addresses of its host that were checked.
	Pin []netip.Addr
}

// Answer is what the remote says of a ref now.
type Answer struct {
	head   string // the remote's default branch, full name
	format string // sha1 or sha256
	res    meta.Resolution
	// later is set when ls-refs can't tell: a commit, which the store or a
	// fetch has to know.
	later bool
	// listed are all branches and tags, and sum identifies them; empty if they were
	// not asked for. snapshot is that of the store at the question.
	listed        listing
	sum, snapshot string
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
		if _, staleErr := c.stale(s, err); staleErr == nil {
			return nil, nil
		}
		return nil, err
	}
	return &a, nil
}

// fresh returns the known resolution when s allows to use it without a question.
func (c *Clone) fresh(s Spec) (meta.Resolution, bool) {
	r, ok := c.Resolution(s)
	switch {
	case !ok:
		return r, false
	case r.Ref == "" && (s.Ref.Kind() == volume.RefSHA || s.Ref.MaybeAbbrev()):
		return r, true // a commit does not move
	case s.Refresh.Never:
		return r, true
	}
	age := c.m.Now().Sub(r.At) // of a clock that went back nothing is known
	return r, age >= 0 && age < s.Refresh.Interval
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
	listFor, list := c.lists(s)
	key := strings.Join([]string{"ask", s.URL.String(), s.Ref.String(), s.Credential, fmt.Sprint(s.Pin), fmt.Sprint(list), listFor}, "\x00")
	return work.ShareTask(ctx, c.used, key, func(ctx context.Context) (Answer, error) {
		*ours = true
		_, end := c.doing.Begin(ctx, "asking", s.URL.String())
		defer end()
		ctx, cancel := context.WithTimeoutCause(ctx, c.m.AskTimeout, noAnswerError(c.m.AskTimeout))
		defer cancel()
		a, err := c.askNow(ctx, s, list)
		a.snapshot = listFor
		return a, err
	})
}

// noAnswerError says for how long a remote was asked. It is a deadline's.
type noAnswerError time.Duration

func (e noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

func (e noAnswerError) Is(target error) bool { return target == context.DeadlineExceeded }

// Refresh resolves s.Ref as a Prepare would, and fetches what the store lacks of
// it, but builds nothing.
func (c *Clone) Refresh(ctx context.Context, s Spec) (meta.Resolution, error) {
	release, err := c.Use(ctx)
	if err != nil {
		return meta.Resolution{}, err
	}
	defer release()
	if err := c.Sweep(ctx); err != nil {
		return meta.Resolution{}, err
	}
	r, _, err := c.resolve(ctx, s, nil)
	return r, err
}

// Ahead returns how many commits a commit has in its history that another one has
// not, as far as the store of s knows.
func (c *Clone) Ahead(ctx context.Context, s Spec, commit, of string) (int, error) {
	return c.m.Git.Ahead(ctx, c.storeDir(s.History.Name()), commit, of)
}

// remote returns where a volume's repository is, with the credentials of its
// subject.
func (c *Clone) remote(s Spec) git.Remote {
	return git.Remote{URL: s.URL.String(), Pin: s.Pin, Auth: func(url string) (*git.Auth, error) {
		if c.m.Credentials == nil {
			return nil, nil
		}
		return c.m.Credentials(url, c.subject, s.Credential)
	}}
}

// askNow asks for all branches and tags too if list is set.
func (c *Clone) askNow(ctx context.Context, s Spec, list bool) (Answer, error) {
	var names []string
	name := s.Ref.String()
	switch s.Ref.Kind() {
	case volume.RefFull:
		names = []string{name}
	case volume.RefName:
		names = []string{"refs/heads/" + name, "refs/tags/" + name}
	}
	asked := names
	if list {
		asked = append(slices.Clone(everything), names...)
	}
	refs, err := c.m.Git.LsRefs(ctx, c.remote(s), asked...)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{head: refs.Head, format: refs.Format, res: meta.Resolution{At: c.m.Now()}}
	if l, ok := listingIn(refs); list && refs.More {
		a.sum = tooMany
	} else if list && ok {
		a.listed, a.sum = l, l.sum()
	}
	switch s.Ref.Kind() {
	case volume.RefSHA:
		a.later, a.res.Pulled = true, name
		a.format = git.Format(name) // a remote without a HEAD says nothing of it
		return a, nil
	case volume.RefDefault:
		id, ok := refs.IDs["HEAD"]
		if !ok {
			return Answer{}, git.EmptyRemote(s.URL.String())
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

// resolve returns what s.Ref stands for now, with its commit in the store, and the
// answer of the remote if the record agreed with it.
func (c *Clone) resolve(ctx context.Context, s Spec, known *Answer) (meta.Resolution, *Answer, error) {
	if r, ok := c.fresh(s); ok {
		return r, nil, nil
	}
	if s.Ref.Kind() != volume.RefSHA {
		if known == nil {
			a, err := c.askInTime(ctx, s)
			if err != nil {
				r, err := c.stale(s, err)
				return r, nil, err
			}
			known = &a
		}
		if c.agrees(s, *known) {
			r, _ := c.Resolution(s)
			return r, known, nil
		}
	}
	r, err := c.bring(ctx, s, known)
	return r, nil, err
}

// bring is resolve of what the store does not have, or may not have.
func (c *Clone) bring(ctx context.Context, s Spec, known *Answer) (meta.Resolution, error) {
	if s.Ref.Kind() == volume.RefSHA {
		r, ok, err := c.commit(ctx, s, s.Ref.String())
		if err != nil {
			return r, err
		}
		if ok {
			store, _ := c.store(s.History)
			return c.record(s, store, r)
		}
	}
	if known == nil {
		a, err := c.askInTime(ctx, s)
		if err != nil {
			return c.stale(s, err)
		}
		known = &a
	}
	a := *known
	if a.later {
		return c.resolveCommit(ctx, s, a)
	}
	extra := ""
	if !everyFetch(a.res.Ref) {
		extra = a.res.Ref
		if extra == "" {
			extra = "HEAD" // detached
		}
	}
	for try := 0; ; try++ {
		store, refs, err := c.fetch(ctx, s, a, extra)
		if err != nil {
			return c.stale(s, err)
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
func (c *Clone) agrees(s Spec, a Answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	store, ok := c.storeLocked(s.History)
	if !ok || a.later || store.Head != a.head {
		return false
	}
	r, ok := store.Refs[s.Ref.String()]
	if !ok || r.Ref != a.res.Ref || r.Pulled != a.res.Pulled {
		return false
	}
	r.At = a.res.At
	store.Refs[s.Ref.String()] = r
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
	r, ok, err := c.commit(ctx, s, rev)
	for _, extra := range fetches {
		if err != nil || ok {
			break
		}
		if _, _, err = c.fetch(ctx, s, a, extra); err == nil {
			r, ok, err = c.commit(ctx, s, rev)
		}
	}
	if err == nil && !ok {
		err = git.RefNotFound(s.URL.String(), s.Ref.String())
	}
	if d := s.History.Depth; d > 0 && git.KindOf(err) == git.KindRefNotFound {
		err = fmt.Errorf("%w; or a depth greater than %d, if the commit is further from the branches and tags than that", err, d)
	}
	if err != nil {
		return meta.Resolution{}, err
	}
	store, _ := c.store(s.History)
	return c.record(s, store, r)
}

// commit looks rev up in the store, if there is one, and keeps it reachable
// there whatever becomes of the branches that hold it now.
func (c *Clone) commit(ctx context.Context, s Spec, rev string) (r meta.Resolution, ok bool, err error) {
	if _, ok := c.store(s.History); !ok {
		return r, false, nil
	}
	dir := c.storeDir(s.History.Name())
	id, ok, err := c.m.Git.Commit(ctx, dir, rev)
	if ok {
		// Not beside a fetch, which sweeps what looks like a lock that was left.
		unlock, err := c.lock(ctx)
		if err != nil {
			return r, false, err
		}
		defer unlock()
		if err := c.m.Git.Keep(ctx, dir, storedAs(id), id); err != nil {
			return r, false, err
		}
	}
	return meta.Resolution{Pulled: id, Commit: id, At: c.m.Now()}, ok, err
}

// record adds a resolution to the clone's record, unless the store has been
// fetched again since: then it is for that fetch to say.
func (c *Clone) record(s Spec, at meta.Store, r meta.Resolution) (meta.Resolution, error) {
	c.mu.Lock()
	store, ok := c.storeLocked(s.History)
	if !ok {
		c.mu.Unlock()
		return r, fmt.Errorf("clone %s was removed meanwhile: run it again", c.key)
	}
	if store.Snapshot != at.Snapshot && r.Ref != "" {
		if newer, ok := store.Refs[s.Ref.String()]; ok {
			c.mu.Unlock()
			return newer, nil
		}
	}
	store.Refs[s.Ref.String()] = r
	c.fade(s.History.Name(), store.Refs)
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
