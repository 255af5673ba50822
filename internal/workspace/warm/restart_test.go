package warm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
)

// TestRestart checks which layers a head has after a restart: all that the database has,
// but after a reboot only those below the first one that was not durable.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	for i := range 3 {
		w.run(nm, func(s *session) { s.write(fmt.Sprintf("nm/%d", i), "x") })
	}
	w.restart("boot 1")
	w.sees(nm, "nm", "0=x", "1=x", "2=x")
	w.restart("boot 2")
	w.sees(nm, "nm", "0=x", "1=x", "2=x")
	chain := w.chain()
	if err := w.db.Update(func(tx *meta.Tx) error {
		return tx.PutLayer(meta.Layer{Kind: meta.WarmLayer, Clone: cloneKey, ID: chain[1], Boot: "boot 2"})
	}); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 2")
	w.sees(nm, "nm", "0=x", "1=x", "2=x")
	if err := w.db.Update(func(tx *meta.Tx) error {
		return tx.PutLayer(meta.Layer{Kind: meta.WarmLayer, Clone: cloneKey, ID: chain[1], Boot: "boot 1"})
	}); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 3")
	w.sees(nm, "nm", "0=x")
	if got := w.layers(); !slices.Equal(got, chain[2:]) {
		t.Errorf("layers %q, want %q", got, chain[2:])
	}
	// Missing directories, and unknown ones.
	w.mkdir(w.dirOf("stranger"), filepath.Join(w.dirOf(".tmp-1"), "nm"))
	if err := os.RemoveAll(w.dirOf(chain[2])); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 3")
	w.sees(nm, "nm")
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers %q", got)
	}
	if state := w.records(); len(state.WarmHeads)+len(state.WarmLayers) > 0 {
		t.Errorf("left: %+v, %+v", state.WarmHeads, state.WarmLayers)
	}
}

// TestLostDatabase checks that workspaces keep their layers if the database is lost, and
// publish nothing that needs them.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	topic := nm
	topic.Ref = "refs/heads/topic"
	w.run(nm, func(s *session) { s.write("nm/a", "1") })
	s, other := w.open(nm), w.open(topic)
	w.stop()
	if err := os.Remove(filepath.Join(w.root, "meta.db")); err != nil {
		t.Fatal(err)
	}
	w.start("boot 1")
	w.m.Hold(cloneKey, s.Paths)
	w.m.Hold(cloneKey, other.Paths)
	w.sees(nm, "nm")
	if got := len(w.layers()); got != 1 {
		t.Errorf("%d layers while workspaces use one", got)
	}
	for _, s := range []*session{s, other} {
		s.has("nm", "a=1")
		s.write("nm/b", "2")
		s.end()
	}
	w.sees(nm, "nm")
	w.sees(topic, "nm")
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers %q", got)
	}
}
