package crash

import (
	"errors"
	"fmt"

	"github.com/helmdeck/repos/tests/invariant"
)

func init() {
	scenarios = append(scenarios, scenario{
		name: "begin with a checkpoint",
		do: func(w *world) error {
			return errors.Join(w.restore("restored", checkpointText), w.mount("restored", w.id("r")))
		},
		points: []string{
			"verbs/create/manifest", "verbs/create/recorded", "mounter/from/made", "mounter/again/mounted", "workspace/open/bound",
			"workspace/open/recorded",
		},
	}, scenario{
		name:   "delete a checkpoint",
		do:     func(w *world) error { return w.removeCheckpoint(checkpointText) },
		points: []string{"workspace/remove/recorded", "workspace/remove/renamed", "trash/remove/begun", "trash/remove/emptied"},
	}, scenario{
		name:    "go back",
		prepare: func(w *world) { w.must(w.keep("old", "o"), w.unmount("old", "o")) },
		do:      func(w *world) error { return w.rewind("old", checkpointText) },
		points:  []string{"workspace/rewind/mounted", "workspace/rewind/recorded"},
	}, scenario{
		name:   "make a checkpoint",
		do:     func(w *world) error { return w.checkpoint("held") },
		points: []string{"workspace/draft/made", "workspace/draft/synced", "workspace/draft/recorded"},
	}, scenario{
		name: "merge a checkpoint with those below it",
		bare: true,
		prepare: func(w *world) {
			w.must(w.create("n0"), w.mount("n0", "f"), w.unmount("n0", "f"))
			for n := 1; n < invariant.MostBelow; n++ { // the last one stands on one less
				w.settle()
				w.must(w.follow(fmt.Sprint("n", n), followed(fmt.Sprint("n", n-1))))
			}
			w.settle()
		},
		do: func(w *world) error {
			return w.follow(fmt.Sprint("last", w.round), followed(fmt.Sprint("n", invariant.MostBelow-1)))
		},
		points: []string{"workspace/flatten/merged", "mounter/merge/made", "mounter/merge/merged", "workspace/flatten/recorded"},
	})
}
