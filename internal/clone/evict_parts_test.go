package clone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
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
	if _, fetches, _ := w.asked(); fetches != 0 || again.Tree.ID != second.Tree.ID {
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

func TestEvictCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.clone(s)
	co := w.prepare(s)
	size := disk.Size{Bytes: 1 << 40, Inodes: 2}
	for _, uid := range []string{"0", "7"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, "cache", uid, "npm"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := c.SetCache(uid, meta.Measured{Size: size, At: w.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	wantBusy(t, "held", w.m.EvictCache(t.Context(), c.Key, "7"), "workspaces")
	co.Release()
	for _, uid := range []string{"", ".", "..", "../store", ".x"} {
		if err := w.m.EvictCache(t.Context(), c.Key, uid); err == nil {
			t.Errorf("cache %q was evicted", uid)
		}
	}
	w.idle(c)
	for _, want := range []disk.Size{size, {}} {
		if got := w.trashed(func() error { return w.m.EvictCache(t.Context(), c.Key, "7") }); got != want {
			t.Errorf("%+v more in the trash, want %+v", got, want)
		}
	}
	if got := testdir.Names(t, filepath.Join(c.Dir, "cache")); !slices.Equal(got, []string{"0"}) {
		t.Errorf("caches %q, want that of 0", got)
	}
	w.restart("boot 1")
	if got := w.m.Inventory()[0].Caches; len(got) != 1 {
		t.Errorf("recorded caches: %+v", got)
	}
}
