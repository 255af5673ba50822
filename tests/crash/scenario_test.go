package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
)

// scenario is something that the plugin does, and the points on its way. A point may have the number of the hit that
// kills, as name:2.
type scenario struct {
	name     string
	settings []string
	bare     bool // without what older versions do not have
	// prepare is done by a run without points, which is killed then; between with no plugin running.
	prepare, between func(w *world)
	// do leads to the points; nil is a start. It is done again, by a run without points, to see that it can be.
	do func(w *world) error
	// powerLoss says that after the crash the machine is off and on again.
	powerLoss bool
	points    []string
}

// populate makes what must survive every crash.
func (w *world) populate(bare bool) {
	w.Helper()
	w.must(w.create("idle"), w.create("held"), w.mount("held", "h1"), w.mount("held", "h2"))
	if bare {
		return
	}
	w.must(
		w.keep("keeping", "k1"), w.keep("kept", "k2"), w.unmount("kept", "k2"),
		w.create("done"), w.mount("done", "d"), w.unmount("done", "d"),
	)
	w.settle()
}

func (w *world) must(errs ...error) {
	w.Helper()
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
}

// id is a mount's, another one each time that a scenario is done.
func (w *world) id(name string) string { return name + strings.Repeat("'", w.round) }

// path is one below the data directory.
func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.config.DataDir()}, elem...)...)
}

// glob returns the only path below the data directory that matches.
func (w *world) glob(pattern string) string {
	w.Helper()
	paths, err := filepath.Glob(w.path(pattern))
	if err != nil || len(paths) != 1 {
		w.Fatalf("%s: %q, %v; want one", pattern, paths, err)
	}
	return paths[0]
}

// done is the text of a discard that there always is.
const done = "written by done for d\n"

// warm is the option of volumes with build state.
const warm = "warm=node_modules"

// cold is the subject of clones that a scenario makes.
const cold = "subject=cold"

var scenarios = []scenario{{
	name: "first mount",
	do: func(w *world) error {
		return errors.Join(w.create("new", cold), w.mount("new", w.id("n")))
	},
	points: []string{
		"driver/create/manifest", "driver/create/recorded",
		"clone/fetch/made", "clone/fetch/fetched", "clone/fetch/synced", "clone/fetch/renamed", "clone/fetch/recorded",
		"clone/layer/made", "clone/tree/checked-out", "clone/layer/built", "layer/publish/renamed", "layer/publish/recorded",
		"clone/layer/made:2", "clone/gitlayer/linked", "clone/layer/built:2", "layer/publish/renamed:2", "layer/publish/recorded:2",
		"layer/sync/synced", "layer/sync/recorded",
	},
}, {
	name: "another mount",
	do:   func(w *world) error { return w.mount("idle", w.id("i")) },
	points: []string{
		"workspace/open/made", "workspace/open/mounted", "workspace/open/bound", "workspace/open/recorded",
	},
}, {
	name: "mount of a new commit",
	do: func(w *world) error {
		w.push(fmt.Sprint(w.round))
		return w.mount("idle", w.id("i"))
	},
	points: []string{
		"clone/delta/mounted", "clone/delta/moved", "clone/delta/detached",
		"clone/fetch/fetched", "clone/fetch/recorded", "layer/publish/renamed", "layer/publish/renamed:2", "layer/sync/synced",
	},
}, {
	name: "mount beside a new branch",
	do: func(w *world) error {
		w.branch(fmt.Sprint("new-", w.round))
		return w.mount("idle", w.id("i"))
	},
	points: []string{"clone/align/written"},
}, {
	name:    "flatten of heavy layers",
	prepare: func(w *world) { w.measured() }, // weights are compared
	do: func(w *world) error {
		w.push(strings.Repeat(fmt.Sprintln("pushed", w.round), 2<<20))
		return w.mount("idle", w.id("i"))
	},
	points: []string{"clone/layer/made:3", "clone/layer/built:3", "layer/publish/renamed:3", "layer/publish/recorded:3"},
}, {
	name: "power loss at a first mount", powerLoss: true,
	do: func(w *world) error {
		return errors.Join(w.create("new", cold), w.mount("new", w.id("n")))
	},
	points: []string{
		"clone/fetch/renamed", "layer/publish/recorded", "layer/publish/recorded:2", "layer/sync/synced", "layer/sync/recorded", "workspace/open/recorded",
	},
}, {
	name: "power loss at a new commit", powerLoss: true,
	do: func(w *world) error {
		w.push(fmt.Sprint(w.round))
		return w.mount("idle", w.id("i"))
	},
	points: []string{"clone/delta/moved", "layer/publish/recorded", "layer/publish/recorded:2"},
}, {
	name: "power loss at build state", powerLoss: true,
	prepare: func(w *world) { w.must(w.create("warm", cold, warm), w.build("warm", "w0")); w.settle() },
	do:      func(w *world) error { return w.build("warm", w.id("w")) },
	points:  []string{"layer/publish/recorded", "layer/sync/synced"},
}, {
	name: "power loss at a kept one", powerLoss: true,
	do:     func(w *world) error { return w.keep("new", w.id("n")) },
	points: []string{"workspace/open/settled", "workspace/open/recorded"},
}, {
	name:    "unmount",
	prepare: func(w *world) { w.must(w.visit("idle", "i")) },
	do:      func(w *world) error { return w.unmount("idle", "i") },
	points: []string{
		"workspace/release/recorded", "workspace/release/detached", "workspace/remove/recorded", "workspace/remove/renamed",
		"trash/put/renamed", "trash/remove/begun", "trash/remove/emptied", "trash/remove/done",
	},
}, {
	name: "unmount of an old commit",
	prepare: func(w *world) {
		w.must(w.create("other", cold), w.visit("other", "o1"))
		w.push("0")
		w.must(w.mount("other", "o2"))
	},
	do:     func(w *world) error { return w.unmount("other", "o1") },
	points: []string{"layer/remove/recorded", "layer/remove/trashed"},
}, {
	name:    "unmount after work",
	prepare: func(w *world) { w.must(w.mount("idle", "i")) },
	do:      func(w *world) error { return w.unmount("idle", "i") },
	points: []string{
		"workspace/discard/unmarked", "workspace/discard/synced", "workspace/discard/recorded",
		"workspace/release/recorded", "workspace/release/detached",
	},
}, {
	name:   "first mount of a kept one",
	do:     func(w *world) error { return w.keep("new", w.id("n")) },
	points: []string{"workspace/open/made", "workspace/open/settled", "workspace/open/bound", "workspace/open/recorded"},
}, {
	name:    "remove of a kept one",
	prepare: func(w *world) { w.must(w.keep("old", "o"), w.unmount("old", "o")) },
	do:      func(w *world) error { return w.remove("old") },
	points:  []string{"driver/remove/recorded", "workspace/discard/recorded"},
}, {
	name:   "restore",
	do:     func(w *world) error { return errors.Join(w.restore("restored", done), w.mount("restored", w.id("r"))) },
	points: []string{"driver/create/manifest", "workspace/restore/recorded", "driver/create/recorded"},
}, {
	name:   "delete a discard",
	do:     func(w *world) error { return w.forget(done) },
	points: []string{"workspace/remove/recorded", "workspace/remove/renamed", "trash/remove/begun", "trash/remove/emptied"},
}, {
	name:    "evict a clone",
	prepare: func(w *world) { w.must(w.create("other", cold), w.visit("other", "o"), w.unmount("other", "o")) },
	do: func(w *world) error {
		return errors.Join(w.evict(), w.visit("other", w.id("o")), w.unmount("other", w.id("o")))
	},
	points: []string{"clone/evict/recorded", "trash/put/renamed", "clone/evict/renamed", "trash/remove/begun", "trash/remove/emptied"},
}, {
	// One clone is in use, and the other's cache is the next to go.
	name: "evict a cache",
	bare: true, settings: []string{"MAX_SIZE=8MiB", "DISCARD_TTL=0"},
	prepare: func(w *world) {
		w.must(w.fill("held", "h1", 4<<20), w.create("other", cold), w.visit("other", "o"), w.unmount("other", "o"))
	},
	do: func(w *world) error {
		return errors.Join(w.visit("other", w.id("o")), w.fill("other", w.id("o"), 5<<20), w.unmount("other", w.id("o")), w.sweepCache())
	},
	points: []string{"clone/evict-cache/renamed"},
}, {
	name:    "unmount of build state",
	prepare: func(w *world) { w.must(w.create("warm", cold, warm), w.build("warm", "w0")) },
	do:      func(w *world) error { return w.build("warm", w.id("w")) },
	points:  []string{"warm/promote/moved", "layer/publish/renamed", "layer/publish/recorded", "layer/sync/synced"},
}, {
	name: "flatten of build state",
	prepare: func(w *world) {
		w.must(w.create("warm", cold, warm))
		for i := range 7 {
			w.must(w.build("warm", fmt.Sprint("w", i)))
			w.settle()
		}
	},
	do:     func(w *world) error { return w.build("warm", w.id("w")) },
	points: []string{"warm/flatten/copied", "layer/publish/renamed:2", "layer/publish/recorded:2"},
}, {
	name:    "remove",
	prepare: func(w *world) { w.must(w.create("old")) },
	do:      func(w *world) error { return w.remove("old") },
	points:  []string{"driver/remove/recorded"},
}, {
	name:    "start without a database",
	between: func(w *world) { w.must(os.Remove(w.path("meta.db"))) },
	points:  []string{"plugin/rebuild/empty", "plugin/rebuild/filled", "plugin/rebuild/renamed"},
}, {
	name:    "start with a damaged database",
	between: func(w *world) { w.must(os.Truncate(w.path("meta.db"), 5000)) },
	points:  []string{"plugin/rebuild/aside", "plugin/rebuild/filled"},
}, {
	name:    "start after an older version",
	bare:    true,
	between: older,
	points:  []string{"meta/open/prepared", "meta/open/committed"},
}, {
	name: "start over leftovers",
	between: func(w *world) {
		trees := filepath.Dir(w.glob("clones/default/*/trees/*"))
		w.must(os.MkdirAll(filepath.Join(trees, ".tmp-1", "a/b/c"), 0o755), os.MkdirAll(filepath.Join(trees, "0123456789abcdef"), 0o755))
	},
	points: []string{"clone/sweep/stores", "clone/sweep/forgotten", "layer/sweep/trashed", "layer/sweep/trashed:2", "trash/remove/begun:2"},
}, {
	name: "mount over a damaged store",
	prepare: func(w *world) {
		w.must(w.create("other", cold), w.mount("other", "o1"), w.unmount("other", "o1"))
	},
	between: func(w *world) {
		pack := w.glob("clones/cold/*/store/full.git/objects/pack/*.pack")
		// Not in place: git layers link it.
		data, err := os.ReadFile(pack)
		w.must(err, os.Remove(pack), os.WriteFile(pack, data[:len(data)/2], 0o644))
	},
	do: func(w *world) error {
		w.push(fmt.Sprint(w.round))
		return w.mount("other", w.id("o"))
	},
	points: []string{"clone/heal/recorded", "clone/heal/aside"},
}}

// older makes the database one of the first schema.
func older(w *world) {
	w.Helper()
	db, err := bbolt.Open(w.path("meta.db"), 0o600, nil)
	if err != nil {
		w.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte("1")) })
	w.must(err, db.Close())
}

// evict deletes the cold clone, once nothing is at work on it.
func (w *world) evict() error {
	return daemon.Poll(func() error {
		paths, err := filepath.Glob(w.path("clones/cold/*"))
		if err != nil || len(paths) == 0 {
			return err // it went in the run before
		}
		err = w.d.Admin.EvictClone(context.Background(), "cold/"+filepath.Base(paths[0]))
		var refused *admin.Error
		if errors.As(err, &refused) && refused.Status == http.StatusConflict {
			return err
		}
		return final(err)
	})
}

// sweepCache has the janitor sweep until it has evicted the cache of the cold clone, which is to be measured first.
func (w *world) sweepCache() error {
	return daemon.Poll(func() error {
		if _, err := w.d.Admin.Sweep(context.Background()); err != nil {
			return final(err)
		}
		if paths, err := filepath.Glob(w.path("clones/cold/*/cache/0")); err != nil || len(paths) > 0 {
			return fmt.Errorf("%q is there: %w", paths, err)
		}
		return nil
	})
}

// final has a poll end, well or not.
func final(err error) error {
	if err == nil {
		return nil
	}
	return daemon.Final(err)
}

// measured waits until the sizes of all trees are known.
func (w *world) measured() {
	w.Helper()
	w.must(daemon.Poll(func() error {
		state, err := invariant.State(w.config.DataDir())
		for key, t := range state.Trees {
			if t.Size.At.IsZero() {
				err = fmt.Errorf("tree %s is not measured", key)
			}
		}
		return err
	}))
}

// fill writes so many bytes into the cache.
func (w *world) fill(volume, id string, bytes int) error {
	path := filepath.Join(w.leases[lease{volume, id}].dir, ".hdcache", "npm", "large")
	return os.WriteFile(path, make([]byte, bytes), 0o644)
}
