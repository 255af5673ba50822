package workspace

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/wait"
)

// publish makes layers of a cache with 256 KiB each, one for each number.
func (w *world) publish(numbers ...int) (rec meta.Workspace) {
	w.t.Helper()
	for _, n := range numbers {
		var dir string
		id := fmt.Sprint(n)
		rec, dir = w.open("v", id)
		put(w.t, dir, stored(id), strings.Repeat("x", 256<<10))
		w.end("v", id)
	}
	return rec
}

// counts checks that the caches of a clone count with what they take on disk, and that the topmost layer counts with so many
// bytes. It leaves out 384 KiB: directories, and what a layer has that nobody holds.
func (w *world) counts(when string, rec meta.Workspace, top int64) {
	w.t.Helper()
	const most = 384 << 10
	w.restart() // which waits for what is removed in the background
	real, err := disk.Measure(w.t.Context(), filepath.Join(w.root, "clones", rec.Clone, "warm"))
	if err != nil {
		w.t.Fatal(err)
	}
	if got := w.m.config.Warm.CacheSize(rec.Clone); got.Bytes < real.Bytes-most || got.Bytes > real.Bytes+most {
		w.t.Errorf("%s: the caches count with %d bytes, and take %d", when, got.Bytes, real.Bytes)
	}
	list := w.m.config.Warm.CacheLayers(rec.Clone)
	if len(list) != 1 && top != 0 || len(list) > 0 && (list[0].Size.Bytes < top-most || list[0].Size.Bytes > top+most || list[0].Held != (top == 0)) {
		w.t.Errorf("%s: layers %+v, want one with %d bytes", when, list, top)
	}
}

// TestMergedCacheCountsOnce: while a workspace holds layers that were merged, their files count for them, and the janitor
// leaves the merged one, without which there would be little more room.
func TestMergedCacheCountsOnce(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{true, false} {
		w := newWorld(t)
		rec := w.publish(1, 2, 3, 4, 5, 6)
		if held {
			w.open("holder", "1")
		}
		w.publish(7)
		wait.For(t, "the layers are merged", func() error { return wait.Equal(len(w.m.config.Warm.CacheLayers(rec.Clone)), 1) })
		if held {
			w.counts("merged", rec, 0)
		} else {
			w.counts("merged", rec, 7*256<<10)
		}
		merged := w.m.config.Warm.CacheLayers(rec.Clone)[0].ID
		if err := w.m.config.Warm.EvictCacheLayer(t.Context(), rec.Clone, merged); err != nil {
			t.Fatal(err)
		}
		w.counts("without the merged layer", rec, 0)
		if held {
			w.end("holder", "1")
		}
		w.counts("at the end", rec, 0)
	}
}

// TestDroppedPathCountsOnce: a layer without a path shares its other files with the layers that a workspace holds.
func TestDroppedPathCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := w.publish(1, 2, 3)
	w.open("holder", "1")
	if _, err := w.m.config.Warm.DropCache(t.Context(), rec.Clone, nil, stored("2")[len(".git/hdcache/"):]); err != nil {
		t.Fatal(err)
	}
	w.counts("while its layers are held", rec, 0)
	w.end("holder", "1")
	w.counts("at the end", rec, 2*256<<10)
}
