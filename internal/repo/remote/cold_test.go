package remote

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// coldSource names a ref for the cold store.
func (h *holder) coldSource(name string) Source {
	h.t.Helper()
	s := h.source(name)
	s.History = volume.ColdHistory
	return s
}

// coldRefs returns the names of all refs of the cold store.
func (h *holder) coldRefs() (names []string) {
	h.t.Helper()
	refs, err := h.r.config.Git.Refs(h.r.StoreDir("cold"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range refs {
		names = append(names, r.Name)
	}
	return names
}

// The cold store has what volumes asked for and nothing else. A fetch for one leaves the
// others as they are, in the store and in its record.
func TestColdStore(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	now := time.Now()
	h.r.now = func() time.Time { return now }
	h.r.config.Now = h.r.now
	h.push("1")
	h.push("2")
	h.git("branch", "same", "main")
	h.git("tag", "-a", "-m", "x", "same", "main~1")
	h.git("tag", "light", "main~1")
	h.git("update-ref", "refs/pull/7/head", "main~1")
	commit := h.git("rev-parse", "main~2")
	var want []string
	resolve := func(name, rev, ref string) {
		t.Helper()
		now = now.Add(time.Minute)
		s := h.coldSource(name)
		before, _ := h.r.Store(s.History)
		if r := h.resolve(s); r.Commit != h.git("rev-parse", rev+"^{commit}") || !r.At.Equal(now) {
			t.Errorf("%s: %+v, want the commit of %s", name, r, rev)
		}
		if stored := storedName(ref); !slices.Contains(want, stored) {
			want = append(want, stored)
			slices.Sort(want)
		}
		if got := h.coldRefs(); !slices.Equal(got, want) {
			t.Errorf("after %s the store has %q, want %q", name, got, want)
		}
		after, _ := h.r.Store(s.History)
		for _, refs := range []map[string]meta.Resolution{before.Refs, after.Refs} {
			delete(refs, name)
			maps.DeleteFunc(refs, func(_ string, r meta.Resolution) bool { return r.Ref == ref }) // by another name
		}
		if !maps.Equal(before.Refs, after.Refs) {
			t.Errorf("after %s the others are %v, want %v", name, after.Refs, before.Refs)
		}
	}
	h.server.Reset()
	resolve("main", "main", "refs/heads/main")
	if got := h.server.Stats("r"); got.LsRefs != 1 || got.Fetches != 1 {
		t.Errorf("requests %+v, want a question and a fetch", got)
	}
	resolve("same", "heads/same", "refs/heads/same") // as git clone does
	resolve("refs/tags/same", "tags/same", "refs/tags/same")
	resolve("light", "light", "refs/tags/light")
	resolve("refs/pull/7/head", "refs/pull/7/head", "refs/pull/7/head")
	resolve(commit, commit, commit)

	// All move, and one is asked for.
	for _, ref := range []string{"refs/heads/main", "refs/heads/same", "refs/tags/same", "refs/tags/light", "refs/pull/7/head"} {
		h.git("update-ref", ref, h.push(ref))
	}
	h.git("branch", "-D", "same")
	resolve("main", "main", "refs/heads/main")

	// The default branch becomes another one, and then none.
	resolve("HEAD", "main", "refs/heads/main")
	h.git("branch", "next", "main~1")
	h.git("symbolic-ref", "HEAD", "refs/heads/next")
	resolve("main", "main", "refs/heads/main")
	resolve("HEAD", "next", "refs/heads/next")
	h.git("update-ref", "--no-deref", "HEAD", "main")
	resolve("HEAD", "main", "HEAD")

	// git can't make this one as long as the other is there.
	h.git("branch", "-D", "next")
	h.git("branch", "next/x", "main")
	if _, err := h.try(t.Context(), h.coldSource("next/x")); giterror.KindOf(err) != giterror.KindOther {
		t.Errorf("a branch below another: %v", err)
	}
	if got := h.coldRefs(); !slices.Equal(got, want) {
		t.Errorf("the store has %q, want %q", got, want)
	}
}

// Volumes that name several refs at once share one fetch per ref.
func TestColdStoreAtOnce(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	h.git("branch", "other", "main~1")
	var all sync.WaitGroup
	for i := range 32 {
		name := []string{"main", "other"}[i%2]
		s := h.coldSource(name)
		all.Go(func() {
			if r, err := h.try(t.Context(), s); err != nil || r.Ref != "refs/heads/"+name {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		})
	}
	all.Wait()
	if got, want := h.coldRefs(), []string{"refs/heads/main", "refs/heads/other"}; !slices.Equal(got, want) {
		t.Errorf("the store has %q, want %q", got, want)
	}
}

// Lost refs of the cold store are fetched again when their volumes are mounted.
func TestColdStoreLosesRefs(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	h.git("branch", "other", "main~1")
	s, commit := h.coldSource("main"), h.coldSource(h.git("rev-parse", "main~1"))
	h.resolve(h.coldSource("other"))
	h.resolve(s)
	h.resolve(commit)
	before, _ := h.r.Store(s.History)
	for _, s := range []Source{s, commit} {
		if err := os.Remove(filepath.Join(h.r.StoreDir("cold"), "packed-refs")); err != nil {
			t.Fatal(err)
		}
		tries := 0
		if err := h.r.Snapshot(t.Context(), s, func(snap *Snapshot) error {
			tries++
			_, err := snap.Refs(t.Context())
			return err
		}); err != nil || tries != 2 {
			t.Errorf("with lost refs: %v after %d tries, want 2", err, tries)
		}
	}
	after, _ := h.r.Store(s.History)
	if got, want := after.Refs["other"], before.Refs["other"]; got != want {
		t.Errorf("the other ref is %+v, want %+v", got, want)
	}
}
