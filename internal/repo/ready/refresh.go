package ready

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Request says what to refresh.
type Request struct {
	Repo string // a URL
	// Ref is a ref as a volume names it, or its full name; empty: all that were mounted in
	// the last day.
	Ref string
	// Subject is the owner of the clone; empty: all subjects.
	Subject string
}

// Result is the result of a refresh: a commit or an error.
type Result struct {
	Clone   string // its key
	Subject string
	Ref     string // as the volume names it
	Commit  string
	Error   string
}

// ErrNoClone means that no clone of a repository exists.
var ErrNoClone = errors.New("there is no clone")

// Refresh refreshes at once what a request names and what was mounted in the last day. All
// questions begin after the call, so that a later Mount finds what the remote has now. If
// ctx ends, the error is its cause, and the work continues in the background. Other errors
// are ErrNoClone and, for a wrong request, *volume.OptionError.
func (k *Keeper) Refresh(ctx context.Context, r Request) ([]Result, error) {
	refs, targets, err := k.find(r)
	if err != nil {
		return nil, err
	}
	lists := make([][]Result, len(targets))
	all, ctx := errgroup.WithContext(ctx)
	for i, t := range targets {
		all.Go(func() (err error) {
			lists[i], err = k.call(ctx, t, refs)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(lists...), nil
}

// call refreshes the checkouts of a clone whose ref is one of refs. Calls that come while an
// earlier one for the same refs runs share the next one, which begins after it: so many calls
// at once cost two questions for each ref.
func (k *Keeper) call(ctx context.Context, t Target, refs []string) ([]Result, error) {
	name := fmt.Sprint(t.Key, "\x00", refs)
	k.mu.Lock()
	id, ok := k.next[name]
	if !ok {
		k.called++
		id = k.called
		k.next[name] = id
	}
	k.mu.Unlock()
	report := func(err error) { k.config.Log.WithContext(ctx).Error(err) }
	return work.Share(ctx, k.config.Work, fmt.Sprint("refresh ", id), report, func(ctx context.Context) ([]Result, error) {
		unlock, err := k.calling.Lock(ctx, name)
		if err != nil {
			return nil, err
		}
		defer unlock()
		k.mu.Lock()
		if k.next[name] == id {
			delete(k.next, name) // it begins: later calls may know of a later push
		}
		k.mu.Unlock()
		return k.refresh(ctx, k.calls, t, k.recents(t, t.Recent(), refs), t.Asked()), nil
	})
}

// find returns the names of the refs that a request means, nil for all, and the clones.
func (k *Keeper) find(r Request) (refs []string, targets []Target, err error) {
	url, err := volume.ParseURL(r.Repo, k.config.Schemes)
	if err != nil {
		return nil, nil, err
	}
	if r.Ref != "" {
		ref, err := volume.ParseRef(r.Ref)
		if err != nil {
			return nil, nil, err
		}
		refs = namesOf(ref)
	}
	who := ""
	if r.Subject != "" {
		if _, err := volume.ParseSubject(r.Subject); err != nil {
			return nil, nil, err
		}
		who = fmt.Sprintf(" for subject %q", r.Subject)
	}
	for _, t := range k.config.Targets() {
		if path.Base(t.Key) == url.Hash() && (r.Subject == "" || r.Subject == t.Subject) {
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 {
		return nil, nil, fmt.Errorf("%w of %s%s: the first mount makes it, or docker repos warm", ErrNoClone, url, who)
	}
	return refs, targets, nil
}

// namesOf returns the full names that a ref may have at the remote.
func namesOf(ref volume.Ref) []string {
	name := ref.String()
	if ref.Kind() == volume.RefName {
		return []string{"refs/heads/" + name, "refs/tags/" + name}
	}
	return []string{name}
}

// namesOneOf reports whether the ref of a checkout is, or was at the last fetch, one of
// refs.
func namesOneOf(t Target, c recent, refs []string) bool {
	names := namesOf(c.options.Ref)
	if r, ok := t.Resolution(clone.SpecOf(c.options)); ok {
		names = append(names, r.Ref)
	}
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(refs, name) })
}

// refresh refreshes checkouts of a clone, each in a turn of slots, one after the other, and
// notes the results. If one fails for a reason that the others share, it does not try them. Answers to questions up to
// the number since are too old.
func (k *Keeper) refresh(ctx context.Context, slots *work.Scheduler, t Target, list []recent, since int64) (results []Result) {
	ctx = work.WithOwner(ctx, work.Owner{Name: "a refresh in advance", Subject: t.Subject, Yields: true})
	var down error
	var before time.Time // the remote's last answer before the last try
	for _, c := range list {
		err := down
		r := Result{Clone: t.Key, Subject: t.Subject, Ref: c.ref}
		if err == nil {
			before = t.Answered()
			r.Commit, err = k.refreshOne(ctx, slots, t, c, since)
			switch {
			case ctx.Err() != nil || isShared(err):
				down = err
			case err == nil:
				k.forget(c.key)
			case k.config.Interval > 0:
				k.note(c.key, true, true)
			}
		}
		if err != nil {
			r.Error = err.Error()
		}
		if !slices.Contains(results, r) { // volumes with other files can have the same ref
			results = append(results, r)
		}
	}
	if k.config.Interval > 0 && ctx.Err() == nil {
		k.note(t.Key, down != nil, t.Answered().After(before))
	}
	return results
}

// refreshOne refreshes a checkout, and logs an error: with KEEP_READY the first one in a row as a
// warning.
func (k *Keeper) refreshOne(ctx context.Context, slots *work.Scheduler, t Target, c recent, since int64) (commit string, err error) {
	if c.err != nil {
		return "", c.err
	}
	slot, err := slots.Acquire(ctx, work.Fetch, false)
	if err != nil {
		return "", err
	}
	defer slot.Release()
	s := clone.SpecOf(c.options)
	s.Since.Asked = since
	r, err := t.Ready(ctx, s)
	if err != nil && ctx.Err() == nil && !errors.Is(err, clone.ErrEvicted) {
		level, failing := logrus.WarnLevel, c.key
		if isShared(err) {
			failing = t.Key
		}
		if k.fails(failing) {
			level = logrus.DebugLevel // a branch that was deleted would be a warning for a day
		}
		k.config.Log.WithContext(ctx).WithError(err).WithFields(map[string]any{"clone": t.Key, "ref": c.ref}).Log(level, "refresh: failed")
	}
	return r.Commit, err
}

// isShared reports whether an error is about the connection to a remote, the disk or the
// whole clone, so that other refs would fail too.
func isShared(err error) bool {
	kinds := []giterror.Kind{giterror.KindTimeout, giterror.KindServer, giterror.KindRefused, giterror.KindHost, giterror.KindTLS, giterror.KindPage, giterror.KindLimit}
	return slices.Contains(kinds, giterror.KindOf(err)) || giterror.NoSpace(err) || errors.Is(err, clone.ErrEvicted)
}
