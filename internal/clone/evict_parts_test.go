package clone

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

func TestEvictLayers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.clone(s)
	first := w.prepare(s)
	w.Advance(time.Minute)
	w.Push("main")
	second := w.prepare(s) // on top of the first
	evict := func(ids ...string) error { return w.m.EvictLayers(t.Context(), c.Key, ids) }
	info := w.m.Inventory()[0]
	got := make(map[string]string)
	for _, l := range info.Layers {
		got[l.ID] = fmt.Sprint(l.Kind, " ", l.Held, " ", len(l.Below), " ", l.Used.Equal(w.Now()))
	}
	want := map[string]string{
		first.Tree.ID: "tree true 0 true", second.Tree.ID: "tree true 1 true",
		first.GitLayer.ID: "git layer true 0 false", second.GitLayer.ID: "git layer true 0 true",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || info.Key != c.Key || info.Subject != "default" || info.Repo != s.URL.Normalized() || !info.Used.Equal(w.Now()) {
		t.Errorf("inventory %+v, want layers %v", info, want)
	}
	wantBusy(t, "held", evict(second.Tree.ID, second.GitLayer.ID), "2 of 2")
	second.Release()
	wantBusy(t, "half of them held", evict(first.Tree.ID, second.Tree.ID, second.GitLayer.ID), "1 of 3")
	if got := testdir.Names(t, c.dirOf(meta.Tree, "")); !slices.Equal(got, []string{first.Tree.ID}) {
		t.Errorf("trees %q, want the held one", got)
	}
	w.Server.Reset()
	again := w.prepare(s)
	if _, fetches, _ := w.requests(); fetches != 0 || again.Tree.ID != second.Tree.ID {
		t.Errorf("%d fetches, tree %s; want it built again from the store", fetches, again.Tree.ID)
	}
	first.Release()
	drop := c.Trees.HoldCommit(second.Tree.Commit)
	again.Release()
	wantBusy(t, "a Mount has built them and does not hold them yet", evict(second.Tree.ID, second.GitLayer.ID), "2 of 2")
	drop()
	wantBusy(t, "a tree stands on it", evict(first.Tree.ID), "1 of 1")
	w.collected(c) // the first one's git layer, if that is not done yet
	was := w.takes(c)
	gone := w.trashed(func() error { return evict(first.Tree.ID, second.Tree.ID, second.GitLayer.ID, "unknown") })
	if want := was.Sub(w.takes(c)); gone != want || want.Bytes == 0 {
		t.Errorf("%+v more in the trash, want %+v", gone, want)
	}
	if got := append(testdir.Names(t, c.dirOf(meta.Tree, "")), testdir.Names(t, c.dirOf(meta.GitLayer, ""))...); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}
