package layer

import (
	"errors"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// ofSize returns a size for tests.
func ofSize(n int64) disk.Size { return disk.Size{Bytes: n, Inodes: n} }

// merge publishes a layer of a cache with links to files of others.
func (w *world) merge(id string, size int64, of ...string) meta.Layer {
	w.t.Helper()
	l := meta.Layer{Kind: meta.WarmLayer, ID: id, Cache: meta.CacheFiles, Of: of, Size: meta.Measured{Size: ofSize(size)}}
	l, err := w.set.Publish(l, w.temp(meta.WarmLayer))
	w.must(err)
	return l
}

// TestSizesOfMerged: files that layers of a cache share count once, in whatever order the layers go.
func TestSizesOfMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	layers := make(map[string]meta.Layer)
	takes := func(when string, caches int64, owns map[string]int64) {
		t.Helper()
		if got := w.set.Sizes(); got.Caches != ofSize(caches) || got.Sum() != ofSize(caches) {
			t.Errorf("%s: the layers take %+v, want %d", when, got, caches)
		}
		for id, want := range owns {
			if got := w.set.Own(meta.WarmLayer, id); got != ofSize(want) {
				t.Errorf("%s: %s has %+v of its own, want %d", when, id, got, want)
			}
		}
	}
	remove := func(id string, frees disk.Size) {
		t.Helper()
		before := w.store.config.Trash.Stats().Size
		w.must(w.set.Remove([]meta.Layer{layers[id]}))
		if got := w.store.config.Trash.Stats().Size.Sub(before); got != frees {
			t.Errorf("the removal of %s frees %+v, want %+v", id, got, frees)
		}
	}
	layers["a"], layers["b"], layers["c"] = w.merge("a", 100), w.merge("b", 50), w.merge("c", 10)
	layers["ab"] = w.merge("ab", 140, "b", "a")
	takes("merged", 160, map[string]int64{"a": 100, "ab": 0})
	remove("b", disk.Size{Inodes: 1})
	takes("without b", 150, map[string]int64{"ab": 40})
	layers["abc"] = w.merge("abc", 145, "c", "ab", "a")
	takes("merged again", 150, map[string]int64{"ab": 40, "abc": 0})

	// A commit that fails changes nothing.
	failed := errors.New("no")
	l := meta.Layer{Kind: meta.WarmLayer, ID: "x", Cache: meta.CacheFiles, Of: []string{"a", "c"}, Size: meta.Measured{Size: ofSize(110)}}
	if _, err := w.set.Publish(l, w.temp(meta.WarmLayer), func(*meta.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	takes("after an error", 150, map[string]int64{"a": 100, "c": 10, "abc": 0})
	w.restart("boot 1")
	takes("after a restart", 150, map[string]int64{"a": 100, "c": 10, "ab": 40, "abc": 0})

	remove("ab", disk.Size{Inodes: 1})
	takes("without ab", 145, map[string]int64{"abc": 35})
	remove("abc", ofSize(35))
	takes("without abc", 110, map[string]int64{"a": 100, "c": 10})
	remove("a", ofSize(100))
	takes("without a", 10, nil)
}
