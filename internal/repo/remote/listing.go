package remote

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
)

// branches and tags are the prefixes of their names. They ask for all of them.
const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// isBranchOrTag reports whether a full ref name is a branch or tag: each fetch updates all
// of those.
func isBranchOrTag(ref string) bool {
	return strings.HasPrefix(ref, branches) || strings.HasPrefix(ref, tags)
}

// sums are the sums of all branches, of all tags, or of both, by prefix.
type sums map[string]gitref.Sum

// sumsOf returns the sums of the branches and tags among the refs of a store.
func sumsOf(refs []gitref.PackedRef) sums {
	of := map[string]*gitref.Summer{branches: {}, tags: {}}
	for _, r := range refs {
		for prefix, s := range of {
			if strings.HasPrefix(r.Name, prefix) && gitref.Listable(r.Name) {
				s.Add(r.Name, r.ID)
			}
		}
	}
	return sums{branches: of[branches].Sum(), tags: of[tags].Sum()}
}

// in reports whether others has all of s.
func (s sums) in(others sums) bool {
	for prefix, sum := range s {
		if others[prefix] != sum {
			return false
		}
	}
	return true
}

// all reports whether s has branches and tags.
func (s sums) all() bool { return len(s) == 2 }

// count returns the number of refs.
func (s sums) count() (n int) {
	for _, sum := range s {
		n += sum.Count
	}
	return n
}

// asksFor returns the prefixes below which a question for a store lists all refs, because
// they are few. More are listed in the background: see FetchOthers.
func asksFor(store meta.Store) []string {
	switch has := sums(store.Sums); {
	case has.count() <= gitref.MaxListed:
		return []string{branches, tags}
	case has[tags].Count <= gitref.MaxListed:
		return []string{tags}
	}
	return nil
}

// listing has the IDs of branches and tags by full name. Peeled IDs of tags are not in it,
// because a tag's own ID determines them.
type listing struct {
	ids   map[string]string
	whole []string // the prefixes below which ids has all refs
}

// listingOf returns the branches and tags in an answer to a question for those below asked.
func listingOf(refs gitref.Answer, asked []string) listing {
	l := listing{ids: make(map[string]string)}
	for _, prefix := range asked {
		if !slices.Contains(refs.Cut, prefix) {
			l.whole = append(l.whole, prefix)
		}
	}
	for name, id := range refs.IDs {
		if l.has(name) && !strings.HasSuffix(name, gitref.PeeledSuffix) {
			l.ids[name] = id
		}
	}
	return l
}

// has reports whether the ref of a name does not exist if ids lacks it.
func (l listing) has(name string) bool {
	return slices.ContainsFunc(l.whole, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// all reports whether l has all branches and tags.
func (l listing) all() bool { return len(l.whole) == 2 }

// adopt returns refs with those of l in place of the current ones. known returns those of
// the objects that the store has. If it lacks that of a ref, adopt keeps the current ref, if
// any, and returns lacks.
func adopt(refs []gitref.PackedRef, l listing, known func(ids []string) (map[string]git.Object, error)) (next []gitref.PackedRef, lacks bool, err error) {
	there := make(map[string]gitref.PackedRef)
	for _, r := range refs {
		_, listed := l.ids[r.Name]
		if listed || l.has(r.Name) {
			there[r.Name] = r
		} else {
			next = append(next, r)
		}
	}
	var ids []string // of new and moved refs
	for name, id := range l.ids {
		if there[name].ID != id {
			ids = append(ids, id)
		}
	}
	var objects map[string]git.Object
	if len(ids) > 0 {
		slices.Sort(ids)
		if objects, err = known(slices.Compact(ids)); err != nil {
			return nil, false, err
		}
	}
	for name, id := range l.ids {
		r, ok := there[name]
		if r.ID != id {
			object, has := objects[id]
			if has && (object.Type == "commit" || strings.HasPrefix(name, tags)) {
				r, ok = gitref.PackedRef{Name: name, ID: id, Peeled: object.Peeled}, true
			} else {
				lacks = true
			}
		}
		if ok {
			next = append(next, r)
		}
	}
	slices.SortFunc(next, func(a, b gitref.PackedRef) int { return strings.Compare(a.Name, b.Name) })
	if collide(next) {
		return refs, true, nil // git decides when it fetches
	}
	return next, lacks, nil
}

// collide reports whether the name of a ref is a directory of another ref's name.
func collide(refs []gitref.PackedRef) bool {
	names := make([]string, len(refs))
	for i, r := range refs {
		names[i] = strings.ReplaceAll(r.Name, "/", "\x00") // so that a name is followed by those in its directory
	}
	slices.Sort(names)
	for i := range max(len(names), 1) - 1 {
		if below, ok := strings.CutPrefix(names[i+1], names[i]); ok && strings.HasPrefix(below, "\x00") {
			return true
		}
	}
	return false
}

// withTags adds the tags of the commit of a.
func (a Answer) withTags(refs gitref.Answer) Answer {
	a.tags = make(map[string]string)
	for name, id := range refs.IDs {
		isTag := strings.HasPrefix(name, tags) && !strings.HasSuffix(name, gitref.PeeledSuffix)
		if isTag && (id == a.res.Commit || refs.IDs[name+gitref.PeeledSuffix] == a.res.Commit) {
			a.tags[name], a.listed.ids[name] = id, id
		}
	}
	return a
}

// LookUp returns the resolution of a full ref name among the refs of a store.
func LookUp(refs []gitref.PackedRef, name string, now time.Time) (meta.Resolution, bool) {
	stored := storedName(name)
	i := slices.IndexFunc(refs, func(r gitref.PackedRef) bool { return r.Name == stored })
	if i < 0 {
		return meta.Resolution{}, false
	}
	return meta.Resolution{Ref: name, Pulled: refs[i].ID, Commit: cmp.Or(refs[i].Peeled, refs[i].ID), At: now}, true
}
