package commands

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/containers"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// namesWorkspace says in help texts what can stand for a workspace.
const namesWorkspace = `The argument is a container, by its name or ID; a volume, which means the workspace that it has now or, without one,
the only checkpoint that it has left; the ID of a workspace or a checkpoint, or the beginning of one; the name of a
checkpoint; or a pod of Kubernetes, as NAMESPACE/NAME. If it can mean different workspaces, the error names them.`

// settleWait is how long lookup waits for an ended workspace to become a checkpoint, or to go: a moment, unless it
// has many changes, or something still uses it. It is a variable for tests.
var settleWait = 10 * time.Second

const settlePause = 100 * time.Millisecond

// meaning is one thing that a word can mean.
type meaning struct {
	what string          // for people, such as: volume "src"
	all  []api.Workspace // that it has or has left, in any phase
	// oneOf is set if it has only one of these, and it is not known which.
	oneOf bool
}

// live and checkpoints divide the workspaces of a meaning.
func (m meaning) live() []api.Workspace {
	return slices.DeleteFunc(slices.Clone(m.all), func(w api.Workspace) bool { return w.Phase == "ended" || w.Phase == "checkpoint" })
}

func (m meaning) checkpoints() []api.Workspace {
	return slices.DeleteFunc(slices.Clone(m.all), func(w api.Workspace) bool { return w.Phase != "checkpoint" })
}

func (m meaning) ended() bool {
	return slices.ContainsFunc(m.all, func(w api.Workspace) bool { return w.Phase == "ended" })
}

// search finds what a word means.
type search struct {
	ctx    context.Context
	s      *session.Session
	c      *api.Client
	word   string
	finder *containers.Finder // nil if the engine is not asked
	engine error              // why it can't be asked
	// checkpoints is set if only checkpoints are meant.
	checkpoints bool
}

func newSearch(ctx context.Context, s *session.Session, c *api.Client, word string) *search {
	q := &search{ctx: ctx, s: s, c: c, word: word}
	q.finder, q.engine = s.Containers(ctx)
	return q
}

// lookupWorkspace returns the workspace that a word means. If that is none, or not one alone, the error says what
// can be named.
func lookupWorkspace(ctx context.Context, s *session.Session, c *api.Client, word string) (api.Workspace, error) {
	return newSearch(ctx, s, c, word).one()
}

// lookupCheckpoint returns the checkpoint that a word means, as lookupWorkspace does.
func lookupCheckpoint(ctx context.Context, s *session.Session, c *api.Client, word string) (api.Checkpoint, error) {
	if d, err := c.Checkpoint(ctx, word); err == nil || !isStatus(err, http.StatusNotFound) {
		return d, err
	}
	q := newSearch(ctx, s, c, word)
	q.checkpoints = true
	w, err := q.one()
	if err != nil {
		return api.Checkpoint{}, err
	}
	return c.Checkpoint(ctx, w.ID)
}

// one returns the only workspace that the word means. It waits for a workspace that has just ended.
func (q *search) one() (api.Workspace, error) {
	deadline := time.Now().Add(settleWait)
	for {
		meanings, err := q.meanings()
		if err != nil {
			return api.Workspace{}, err
		}
		i := slices.IndexFunc(meanings, func(m meaning) bool { return m.ended() && (q.checkpoints || len(m.live()) == 0) })
		switch {
		case i < 0:
			return q.choose(meanings)
		case time.Now().After(deadline):
			return api.Workspace{}, q.notSettled(meanings[i])
		}
		select {
		case <-q.ctx.Done():
			return api.Workspace{}, context.Cause(q.ctx)
		case <-time.After(settlePause):
		}
	}
}

// notSettled is the error of a word whose workspace has ended, but is not a checkpoint yet.
func (q *search) notSettled(m meaning) error {
	rest := ""
	if left := m.checkpoints(); len(left) > 0 {
		rest = ", or name one of these checkpoints by its ID" + q.list(left)
	}
	return fmt.Errorf("a workspace of %s has ended, and something still uses it: run it again when that has ended%s", m.what, rest)
}

// meanings returns all that the word names, or else all that it is the beginning of.
func (q *search) meanings() ([]meaning, error) {
	whole, err := q.whole()
	if err != nil {
		return nil, err
	}
	at, is, err := q.container()
	switch {
	case err != nil: // the engine may also mean that several IDs begin so
		q.engine = err
	case is && at.Is(q.word):
		m, err := q.of(at)
		return append(whole, m), err
	}
	if len(whole) > 0 {
		return whole, nil
	}
	begun, err := q.begun()
	if is && err == nil {
		var m meaning
		m, err = q.of(at)
		begun = append(begun, m)
	}
	return begun, err
}

// whole returns what has the word as its whole name or ID, except containers.
func (q *search) whole() (found []meaning, err error) {
	all, err := q.c.Workspaces(q.ctx, api.Filter{Volume: q.word})
	if err != nil {
		return nil, err
	}
	if len(all) > 0 {
		found = append(found, meaning{what: "volume " + quote(q.word), all: all})
	}
	w, err := q.c.Workspace(q.ctx, q.word)
	switch {
	case err == nil:
		kind := "workspace "
		if w.Phase == "checkpoint" {
			kind = "checkpoint "
		}
		found = append(found, meaning{what: kind + w.ID, all: []api.Workspace{w.Workspace}})
	case !isStatus(err, http.StatusNotFound):
		return nil, err
	}
	named, err := q.named()
	if err != nil {
		return nil, err
	}
	pod, err := q.pod()
	return slices.Concat(found, named, pod), err
}

// named returns the checkpoints whose name is the word.
func (q *search) named() (found []meaning, err error) {
	checkpoints, err := q.c.Checkpoints(q.ctx, api.Filter{})
	if err != nil {
		return nil, err
	}
	for _, d := range checkpoints {
		if d.Name != q.word {
			continue
		}
		w, err := q.c.Workspace(q.ctx, d.ID)
		switch {
		case err == nil:
			found = append(found, meaning{what: "checkpoint " + w.ID, all: []api.Workspace{w.Workspace}})
		case !isStatus(err, http.StatusNotFound):
			return nil, err
		}
	}
	return found, nil
}

// pod returns what a pod of Kubernetes has, or the holder of a lease, whose IDs have a slash too.
func (q *search) pod() ([]meaning, error) {
	if !strings.Contains(q.word, "/") {
		return nil, nil
	}
	leases, err := q.c.Leases(q.ctx, api.Filter{})
	if err != nil {
		return nil, err
	}
	pod, lease := meaning{what: "pod " + quote(q.word)}, meaning{what: "lease " + quote(q.word)}
	for _, l := range leases {
		for m, is := range map[*meaning]bool{&pod: l.Pod == q.word, &lease: l.ID == q.word} {
			if !is {
				continue
			}
			w, err := q.c.Workspace(q.ctx, l.Workspace)
			if err != nil && !isStatus(err, http.StatusNotFound) {
				return nil, err
			} else if err == nil {
				m.all = append(m.all, w.Workspace)
			}
		}
	}
	return slices.DeleteFunc([]meaning{pod, lease}, func(m meaning) bool { return len(m.all) == 0 }), nil
}

// begun returns the workspaces and checkpoints whose IDs begin with the word.
func (q *search) begun() (found []meaning, err error) {
	if strings.Trim(q.word, "0123456789abcdef") != "" {
		return nil, nil
	}
	all, err := q.c.Workspaces(q.ctx, api.Filter{})
	for _, w := range all {
		if strings.HasPrefix(w.ID, q.word) && w.Phase != "ended" {
			found = append(found, meaning{what: w.ID, all: []api.Workspace{w}})
		}
	}
	return found, err
}

// container returns the container that the word names.
func (q *search) container() (containers.Container, bool, error) {
	if q.finder == nil {
		return containers.Container{}, false, nil
	}
	return q.finder.Find(q.ctx, q.word)
}

// of returns the workspace that a container has, or what its volumes have left if it does not run.
func (q *search) of(at containers.Container) (meaning, error) {
	m := meaning{what: "container " + quote(at.Name)}
	var all []api.Workspace
	for _, volume := range at.Volumes {
		list, err := q.c.Workspaces(q.ctx, api.Filter{Volume: volume})
		if err != nil {
			return m, err
		}
		all = append(all, list...)
	}
	has, exact := q.finder.Of(q.ctx, at, all)
	if m.all, m.oneOf = has, !exact; len(has) > 0 && !q.checkpoints {
		return m, nil
	}
	for _, w := range all { // what other containers have is not its own
		if w.Phase != "mounted" && w.Phase != "making" {
			m.all = append(m.all, w)
		}
	}
	return m, nil
}

// choose returns the only workspace of the meanings. Live ones of a volume or a container come before what it has
// left.
func (q *search) choose(meanings []meaning) (api.Workspace, error) {
	var chosen []api.Workspace
	var names []string
	left, oneOf := false, false
	for _, m := range meanings {
		list := m.live()
		if len(list) == 0 || q.checkpoints {
			list = m.checkpoints()
			left = left || len(list) > 0
		}
		if len(list) > 0 {
			names = append(names, m.what)
			oneOf = oneOf || m.oneOf
		}
		for _, w := range list {
			if !slices.ContainsFunc(chosen, func(c api.Workspace) bool { return c.ID == w.ID }) {
				chosen = append(chosen, w)
			}
		}
	}
	what := strings.Join(names, " and ")
	switch {
	case len(chosen) == 1:
		return chosen[0], nil
	case len(chosen) == 0 && len(meanings) > 0:
		return api.Workspace{}, q.nothing(meanings[0])
	case len(chosen) == 0:
		return api.Workspace{}, q.unknown()
	case len(names) > 1 && isBegun(meanings, q.word):
		return api.Workspace{}, fmt.Errorf("%d IDs begin with %s: name one of them%s", len(names), quote(q.word), q.list(chosen))
	case len(names) > 1:
		return api.Workspace{}, fmt.Errorf("%s can mean %s: name a workspace by its ID%s", quote(q.word), what, q.list(chosen))
	case oneOf:
		return api.Workspace{}, fmt.Errorf("%s has one of these workspaces, and only the engine's own machine can tell which: name it by its ID, which .git/helmdeck.json in the container has%s", what, q.list(chosen))
	case left:
		return api.Workspace{}, fmt.Errorf("%s has left %d checkpoints: name one of them by its ID%s", what, len(chosen), q.list(chosen))
	}
	return api.Workspace{}, fmt.Errorf("%s has %d workspaces: name one of them by its ID, or its container%s", what, len(chosen), q.list(chosen))
}

// isBegun reports whether a word is the beginning of an ID of all that it means.
func isBegun(meanings []meaning, word string) bool {
	return !slices.ContainsFunc(meanings, func(m meaning) bool {
		return len(m.all) != 1 || m.all[0].ID == word || !strings.HasPrefix(m.all[0].ID, word)
	})
}

// nothing is the error of a word that means something that has no workspace, or no checkpoint.
func (q *search) nothing(m meaning) error {
	if live := m.live(); q.checkpoints && len(live) > 0 {
		return fmt.Errorf("%s has left no checkpoint: its workspace has not ended%s", m.what, q.list(live))
	}
	return fmt.Errorf("%s has no workspace now and has left no checkpoint: its files were not changed, or the checkpoint was removed or evicted", m.what)
}

// unknown is the error of a word that means nothing.
func (q *search) unknown() error {
	if v, err := q.c.Volume(q.ctx, q.word); err == nil {
		return q.nothing(meaning{what: "volume " + quote(v.Name)})
	}
	kinds := "container, volume, pod, workspace or checkpoint"
	if q.finder == nil {
		kinds = "volume, pod, workspace or checkpoint"
	}
	err := fmt.Errorf("there is no %s with a workspace that %s names: docker repos leases ls and docker repos checkpoints ls list them", kinds, quote(q.word))
	if q.engine != nil {
		err = fmt.Errorf("%w (the engine could not be asked for containers: %v)", err, q.engine)
	}
	return unknownError{err}
}

// shownWorkspaces bounds the lines of an error.
const shownWorkspaces = 20

// list returns a line for each workspace.
func (q *search) list(list []api.Workspace) string {
	var running []containers.Container
	if q.finder != nil {
		running, _ = q.finder.Running(q.ctx)
	}
	holders := holdersOf(q.ctx, q.finder, running, list)
	var b strings.Builder
	for _, w := range list[:min(len(list), shownWorkspaces)] {
		when := "mounted " + show.Ago(w.MountedAt)
		if w.EndedAt != nil {
			when = "ended " + show.Ago(*w.EndedAt)
		}
		fmt.Fprintf(&b, "\n  %s  volume %s, %s", show.Text(w.ID), show.Text(w.Volume), when)
		switch who := holders[w.ID]; {
		case who != "":
			fmt.Fprintf(&b, " by container %s", show.Text(who))
		case len(w.Leases) > 0:
			fmt.Fprintf(&b, " by %s", show.Text(strings.Join(w.Leases, ", ")))
		}
	}
	if n := len(list) - shownWorkspaces; n > 0 {
		fmt.Fprintf(&b, "\n  and %d more", n)
	}
	return b.String()
}

// holdersOf returns the names of the containers that have workspaces, by the IDs of these. The names of those that
// may have it, if that is not known, are joined by "or".
func holdersOf(ctx context.Context, f *containers.Finder, running []containers.Container, workspaces []api.Workspace) map[string]string {
	type holders struct{ sure, maybe []string }
	byID := make(map[string]*holders)
	for _, c := range running {
		has, exact := f.Of(ctx, c, workspaces)
		for _, w := range has {
			h := byID[w.ID]
			if h == nil {
				h = new(holders)
				byID[w.ID] = h
			}
			if exact {
				h.sure = append(h.sure, c.Name)
			} else {
				h.maybe = append(h.maybe, c.Name)
			}
		}
	}
	names := make(map[string]string, len(byID))
	for id, h := range byID {
		if names[id] = strings.Join(h.sure, ", "); len(h.sure) == 0 {
			names[id] = strings.Join(h.maybe, " or ")
		}
	}
	return names
}

// quote quotes a name in an error.
func quote(name string) string { return fmt.Sprintf("%q", show.Text(name)) }
