package remote

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
)

// A remote without a branch is mounted as git clone leaves it: HEAD is at the branch that the
// remote's HEAD points to, and there is no commit. Its Resolution has the branch, and neither an
// object nor a commit. Its store has no objects.

// hasBranch reports whether an answer about all branches has one.
func hasBranch(refs gitref.Answer) bool {
	for name := range refs.IDs {
		if isBranch(name) {
			return true
		}
	}
	return false
}

func isBranch(ref string) bool { return strings.HasPrefix(ref, "refs/heads/") }

// emptyRemote returns the branch and the object format of an empty remote whose answer names
// neither, because it speaks an older protocol, or git did not ask for them, as over ssh. git clone
// asks, and takes its own default for what the remote does not say.
func (m *Remote) emptyRemote(ctx context.Context, s Source) (head, format string, err error) {
	temp, err := m.newStore()
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, m.discardStore(s.History, temp)) }()
	return m.config.Git.EmptyClone(ctx, git.Fetch{Store: temp, Remote: m.at(s)})
}

// resolve returns where the ref of an answer is after the fetch.
func (f fetched) resolve(a Answer) (meta.Resolution, bool) {
	r, ok := LookUp(f.refs, cmp.Or(a.res.Ref, f.store.Head), f.at)
	if !ok && a.empty {
		return f.unborn()
	}
	return r, ok
}

// unborn returns the resolution of a default branch without a commit, if the remote has no branches.
func (f fetched) unborn() (meta.Resolution, bool) {
	none := !slices.ContainsFunc(f.refs, func(r gitref.PackedRef) bool { return isBranch(r.Name) })
	return meta.Resolution{Ref: f.store.Head, At: f.at}, none
}
