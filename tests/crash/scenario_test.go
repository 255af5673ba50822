package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/wait"
)

// scenario is an operation of the plugin with the failpoints on its way. A point such as name:2
// kills at its second hit.
type scenario struct {
	name     string
	settings []string
	bare     bool // without checkpoints and kept workspaces
	// prepare runs before the crash, without failpoints; then the plugin is killed. between runs
	// while no plugin runs.
	prepare, between func(w *world)
	// do is the operation that leads to the points; if it is nil, the plugin's start leads to them.
	// After the repair it is repeated without failpoints, and must succeed.
	do func(w *world) error
	// powerLoss is set if the machine loses power together with the crash.
	powerLoss bool
	points    []string
}

// populate creates the data that must survive every crash.
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

// id returns a mount ID, which differs each time that the operation is repeated.
func (w *world) id(name string) string { return name + strings.Repeat("'", w.round) }

// path returns a path below the data directory.
func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.config.DataDir()}, elem...)...)
}

// glob returns the only path below the data directory that matches.
func (w *world) glob(pattern string) string {
	w.Helper()
	paths, err := filepath.Glob(w.path(pattern))
	if err != nil || len(paths) != 1 {
		w.Fatalf("%s: %q, %v; want one path", pattern, paths, err)
	}
	return paths[0]
}

// checkpointText is the text in the checkpoint that populate makes.
const checkpointText = "written by done for d\n"

// warm is the option of volumes with build state.
const warm = "warm=node_modules,dist"

// cold is the option for the subject whose clones a scenario creates.
const cold = "subject=cold"

var scenarios = []scenario{{
	name: "first mount",
	do: func(w *world) error {
		return errors.Join(w.create("new", cold), w.mount("new", w.id("n")))
	},
	points: []string{
		"verbs/create/manifest", "verbs/create/recorded",
		"remote/fetch/made", "remote/fetch/fetched", "remote/fetch/synced", "remote/fetch/renamed", "remote/fetch/recorded",
		"tree/layer/made", "tree/build/checked-out", "tree/layer/built", "layer/publish/renamed", "layer/publish/recorded",
		"tree/layer/made:2", "tree/gitlayer/linked", "tree/layer/built:2", "layer/publish/renamed:2", "layer/publish/recorded:2",
		"layer/sync/synced", "layer/sync/recorded",
	},
}, {
	name: "rotation of the audit log", settings: []string{"AUDIT_SIZE=512KiB"},
	do: func(w *world) error {
		for range 1500 { // a record of some 450 bytes each, in files of 64 KiB
			if err := w.create("bad", "nonsense=x"); !daemon.IsRefused(err) {
				return err
			}
		}
		return nil
	},
	points: []string{
		"audit/rotate/removed", "audit/rotate/renamed", "audit/rotate/made",
		"audit/rotate/removed:8", "audit/rotate/renamed:8", "audit/rotate/made:8",
	},
}, {
	name:    "start with other settings",
	between: func(w *world) { w.config.Env = append(w.config.Env, "TTL=300h") },
	points:  []string{"audit/settings/recorded"},
}, {
	name: "another mount",
	do:   func(w *world) error { return w.mount("idle", w.id("i")) },
	points: []string{
		"mounter/open/made", "mounter/open/mounted", "workspace/open/bound", "workspace/open/recorded",
	},
}, {
	name: "mount of a new commit",
	do: func(w *world) error {
		w.push(fmt.Sprint(w.round))
		return w.mount("idle", w.id("i"))
	},
	points: []string{
		"tree/delta/moved",
		"remote/fetch/fetched", "remote/fetch/recorded", "layer/publish/renamed", "layer/publish/renamed:2", "layer/sync/synced",
	},
}, {
	name: "mount beside a new branch",
	do: func(w *world) error {
		w.branch(fmt.Sprint("new-", w.round))
		return w.mount("idle", w.id("i"))
	},
	points: []string{"remote/align/written"},
}, {
	name:    "flatten of heavy layers",
	prepare: func(w *world) { w.awaitSizes() }, // whether to flatten depends on the sizes
	do: func(w *world) error {
		w.push(strings.Repeat(fmt.Sprintln("pushed", w.round), 2<<20))
		return w.mount("idle", w.id("i"))
	},
	points: []string{"tree/layer/made:3", "tree/layer/built:3", "layer/publish/renamed:3", "layer/publish/recorded:3"},
}, {
	name: "power loss at a first mount", powerLoss: true,
	do: func(w *world) error {
		return errors.Join(w.create("new", cold), w.mount("new", w.id("n")))
	},
	points: []string{
		"remote/fetch/renamed", "layer/publish/recorded", "layer/publish/recorded:2", "layer/sync/synced", "layer/sync/recorded", "workspace/open/recorded",
	},
}, {
	name: "power loss at a new commit", powerLoss: true,
	do: func(w *world) error {
		w.push(fmt.Sprint(w.round))
		return w.mount("idle", w.id("i"))
	},
	points: []string{"tree/delta/moved", "layer/publish/recorded", "layer/publish/recorded:2"},
}, {
	name: "power loss at build state", powerLoss: true,
	prepare: func(w *world) { w.must(w.create("warm", cold, warm), w.mountAndBuild("warm", "w0")); w.settle() },
	do:      func(w *world) error { return w.mountAndBuild("warm", w.id("w")) },
	points:  []string{"layer/publish/recorded", "layer/sync/synced"},
}, {
	name: "power loss at a mode=keep mount", powerLoss: true,
	do:     func(w *world) error { return w.keep("new", w.id("n")) },
	points: []string{"mounter/open/durable", "workspace/open/recorded"},
}, {
	name:    "unmount",
	prepare: func(w *world) { w.must(w.mountUnchanged("idle", "i")) },
	do:      func(w *world) error { return w.unmount("idle", "i") },
	points: []string{
		"workspace/release/recorded", "workspace/release/detached", "workspace/remove/recorded", "workspace/remove/renamed",
		"trash/put/renamed", "trash/remove/begun", "trash/remove/emptied", "trash/remove/done",
	},
}, {
	name: "unmount of an old commit",
	prepare: func(w *world) {
		w.must(w.create("other", cold), w.mountUnchanged("other", "o1"))
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
		"workspace/checkpoint/unmarked", "workspace/checkpoint/synced", "workspace/checkpoint/recorded",
		"workspace/release/recorded", "workspace/release/detached",
	},
}, {
	name:   "first mount with mode=keep",
	do:     func(w *world) error { return w.keep("new", w.id("n")) },
	points: []string{"mounter/open/made", "mounter/open/durable", "workspace/open/bound", "workspace/open/recorded"},
}, {
	name:    "remove with mode=keep",
	prepare: func(w *world) { w.must(w.keep("old", "o"), w.unmount("old", "o")) },
	do:      func(w *world) error { return w.remove("old") },
	points:  []string{"verbs/remove/recorded", "workspace/checkpoint/recorded"},
}, {
	name: "evict a clone",
	prepare: func(w *world) {
		w.must(w.create("other", cold), w.mountUnchanged("other", "o"), w.unmount("other", "o"))
	},
	do: func(w *world) error {
		return errors.Join(w.evict(), w.mountUnchanged("other", w.id("o")), w.unmount("other", w.id("o")))
	},
	points: []string{"clone/evict/recorded", "trash/put/renamed", "clone/evict/renamed", "trash/remove/begun", "trash/remove/emptied"},
}, {
	name: "start fresh by force",
	prepare: func(w *world) {
		w.must(w.create("other", cold), w.mount("other", "o"), w.unmount("other", "o"))
		w.must(w.create("stays", cold, "mode=keep"), w.mount("stays", "s"), w.unmount("stays", "s"))
		w.settle()
	},
	do: func(w *world) error {
		err := w.fresh()
		for _, name := range []string{"other", "stays"} {
			err = errors.Join(err, w.mountUnchanged(name, w.id("o")), w.unmount(name, w.id("o")))
		}
		return err
	},
	points: []string{
		"workspace/clear/parked", "workspace/remove/recorded", "workspace/remove/renamed", "workspace/remove/recorded:2",
		"clone/evict/recorded", "clone/evict/renamed",
	},
}, {
	name:    "forced release",
	prepare: func(w *world) { w.must(w.mount("idle", "i")) },
	do:      func(w *world) error { return w.forceRelease("idle", "i") },
	points:  []string{"workspace/force/unmounted", "workspace/release/recorded", "workspace/checkpoint/recorded"},
}, {
	name:    "unmount with a new cache",
	prepare: func(w *world) { w.must(w.create("other", cold), w.mountAndFetch("other", "o0", 1<<10)) },
	do:      func(w *world) error { return w.mountAndFetch("other", w.id("o"), 1<<10) },
	points:  []string{"cache/collect/moved:2", "warm/publish/collected", "layer/publish/renamed", "layer/publish/recorded", "layer/sync/synced"},
}, {
	name: "publish a cache on request",
	prepare: func(w *world) {
		w.must(w.create("other", cold), w.mountUnchanged("other", "o"), w.create("reader", cold))
	},
	do: func(w *world) error {
		return errors.Join(w.publishNow("other", "o", w.id("n")), w.mountUnchanged("reader", w.id("r")), w.unmount("reader", w.id("r")))
	},
	points: []string{"warm/publish/collected", "layer/publish/renamed", "layer/publish/recorded"},
}, {
	name: "merge of a cache",
	prepare: func(w *world) {
		w.must(w.create("other", cold))
		for i := range 6 { // with the base and the next, they are as many as are merged
			w.must(w.mountAndFetch("other", fmt.Sprint("o", i), 1<<10))
			w.settle()
		}
	},
	do:     func(w *world) error { return w.mountAndFetch("other", w.id("o"), 1<<10) },
	points: []string{"warm/flatten/copied", "layer/publish/renamed:2", "layer/publish/recorded:2"},
}, {
	// One clone is in use, so that the other's cache is evicted next. Half of the limit is the plugin's own.
	name: "evict a cache",
	bare: true, settings: []string{"MAX_SIZE=16MiB", "CHECKPOINT_TTL=0"},
	prepare: func(w *world) {
		w.must(w.mountAndFetch("idle", "i", 4<<20), w.create("other", cold), w.mountUnchanged("other", "o"), w.unmount("other", "o"))
	},
	do: func(w *world) error {
		return errors.Join(w.mountAndFetch("other", w.id("o"), 6<<20), w.sweepCache())
	},
	points: []string{"layer/remove/recorded", "layer/remove/trashed"},
}, {
	name:    "unmount of build state",
	prepare: func(w *world) { w.must(w.create("warm", cold, warm, "publish=marked"), w.mountAndBuild("warm", "w0")) },
	do:      func(w *world) error { return w.mountAndBuild("warm", w.id("w")) },
	points: []string{
		"warm/promote/moved", "warm/promote/moved:2", "layer/publish/renamed", "layer/publish/renamed:2", "layer/publish/recorded", "workspace/reap/promoted", "layer/sync/synced",
	},
}, {
	name: "flatten of build state",
	prepare: func(w *world) {
		w.must(w.create("warm", cold, warm))
		for i := range 7 {
			w.must(w.mountAndBuild("warm", fmt.Sprint("w", i)))
			w.settle()
		}
	},
	do:     func(w *world) error { return w.mountAndBuild("warm", w.id("w")) },
	points: []string{"warm/flatten/copied", "layer/publish/renamed:3", "layer/publish/recorded:2"},
}, {
	name:    "remove",
	prepare: func(w *world) { w.must(w.create("old")) },
	do:      func(w *world) error { return w.remove("old") },
	points:  []string{"verbs/remove/recorded"},
}, {
	name:    "start without a database",
	between: func(w *world) { w.must(os.Remove(w.path("meta.db"))) },
	points:  []string{"meta/open/prepared", "meta/open/committed", "plugin/rebuild/empty", "plugin/rebuild/filled", "plugin/rebuild/renamed"},
}, {
	name:    "start with a damaged database",
	between: func(w *world) { w.must(os.Truncate(w.path("meta.db"), 5000)) },
	points:  []string{"plugin/rebuild/aside", "plugin/rebuild/filled"},
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
		// Not in place, because git layers have hard links to the pack.
		data, err := os.ReadFile(pack)
		w.must(err, os.Remove(pack), os.WriteFile(pack, data[:len(data)/2], 0o644))
	},
	do: func(w *world) error {
		w.push(fmt.Sprint(w.round))
		return w.mount("other", w.id("o"))
	},
	points: []string{"remote/heal/recorded", "remote/heal/aside"},
}}

// evict deletes the cold clone as soon as no work on it is going on.
func (w *world) evict() error {
	return wait.Until(w, func() error {
		paths, err := filepath.Glob(w.path("clones/cold/*"))
		if err != nil || len(paths) == 0 {
			return err // the run before has evicted it
		}
		_, err = w.d.Admin.EvictClone(context.Background(), "cold/"+filepath.Base(paths[0]))
		var refused *api.Error
		if errors.As(err, &refused) && refused.Status == http.StatusConflict {
			return err
		}
		return final(err)
	})
}

// fresh starts the cold clone fresh by force as soon as nothing holds it: its checkpoints and kept
// workspaces may be gone from then on.
func (w *world) fresh() error {
	delete(w.checkpoints, "written by other for o\n")
	delete(w.checkpoints, "written by stays for s\n")
	return wait.Until(w, func() error {
		_, err := w.d.Admin.FreshSubject(context.Background(), "cold", true)
		return unlessGone(err)
	})
}

// forceRelease releases a lease by force as soon as the kernel says that nobody uses its workspace.
func (w *world) forceRelease(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	if err := wait.Until(w, func() error { return unlessGone(w.d.Admin.ReleaseLease(context.Background(), volume, id)) }); err != nil {
		return err
	}
	if h, ok := w.leases[l]; ok {
		w.checkpoints[h.text] = true
	}
	delete(w.leases, l)
	delete(w.unsure, l)
	return nil
}

// unlessGone ends a poll unless something is in the way. What does not exist any more is gone.
func unlessGone(err error) error {
	var refused *api.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusConflict:
		return err
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return nil
	}
	return final(err)
}

// final ends a poll, with or without an error.
func final(err error) error {
	if err == nil {
		return nil
	}
	return wait.Final(err)
}

// awaitSizes waits until the sizes of all trees are known.
func (w *world) awaitSizes() {
	w.Helper()
	w.must(wait.Until(w, func() error {
		state, err := invariant.State(w.config.DataDir())
		for key, t := range state.Trees {
			if t.Size.At.IsZero() {
				err = fmt.Errorf("tree %s is not measured", key)
			}
		}
		return err
	}))
}
