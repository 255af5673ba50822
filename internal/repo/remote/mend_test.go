package remote

import (
	"fmt"
	"testing"
)

// TestStoreSetAside checks that a Snapshot tries again if another one sets the damaged store aside while it reads refs.
func TestStoreSetAside(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	h.resolve(s)
	rounds := 0
	if err := h.r.Snapshot(t.Context(), s, func(snap *Snapshot) error {
		if rounds++; rounds == 1 {
			unlock, err := h.r.lock(t.Context(), s.History)
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			if _, err := h.r.setAside("full", "damaged-store"); err != nil {
				t.Fatal(err)
			}
			_, err = snap.readRefs()
			return err
		}
		_, err := snap.Refs(t.Context())
		return err
	}); err != nil || rounds != 2 {
		t.Errorf("%v after %d rounds", err, rounds)
	}
}

// TestOthersInAdvance checks that work in advance, which brings other refs itself, leaves nothing to the background.
func TestOthersInAdvance(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	for n := range 201 { // too many for a question
		h.git("update-ref", fmt.Sprint("refs/heads/b", n), "main")
	}
	s.Others = OthersNow
	for range 2 { // the second one comes too early for another listing
		if err := h.r.Snapshot(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		if h.r.WantsOthers(s.History) {
			t.Error("the other refs are listed in the background too")
		}
	}
}
