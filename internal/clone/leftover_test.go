package clone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// A layer that was not synced before a reboot is lost, whatever is synced later. Its
// remains do not prevent a new one.
func TestUnsyncedLayerIsLostAfterReboot(t *testing.T) {
	t.Parallel()
	for _, synced := range []bool{false, true} {
		w := newWorld(t, "")
		s := w.spec("ref", "main")
		co := w.prepare(s)
		co.Release()
		if err := w.m.config.Layers.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.m.config.Work.Close() // no sync comes in between
		c := w.clone(s)
		if err := w.data.DB.Update(func(tx *meta.Tx) error {
			for _, l := range c.layers.List() {
				l.Durable = false
				if err := tx.PutLayer(l); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.Advance(time.Second)
		w.restart("boot 2")
		if synced {
			if err := w.m.config.Layers.Sync(t.Context()); err != nil { // before the sweep has seen the clone
				t.Fatal(err)
			}
		}
		again := w.prepare(s)
		if again.Tree.ID != co.Tree.ID || again.Tree.Boot != "boot 2" || again.GitLayer.Boot != "boot 2" {
			t.Errorf("tree %+v, want one of this boot", again.Tree)
		}
		if got := run(t, w.Mount(again.Lower, 0), 0, "status", "--porcelain"); got != "" {
			t.Errorf("status %q", got)
		}
		again.Release()
	}
}

// A directory without a record is replaced by a new layer.
func TestPublishReplacesLeftover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	co := w.prepare(s)
	co.Release()
	c := w.clone(s)
	c.layers.Withdraw(c.layers.List()) // as if their records were gone
	left := filepath.Join(co.Lower[len(co.Lower)-1], "left")
	if err := os.WriteFile(left, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	again := w.prepare(s)
	defer again.Release()
	if again.Tree.ID != co.Tree.ID {
		t.Errorf("tree %s, want %s", again.Tree.ID, co.Tree.ID)
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("the leftover is in the tree: %v", err)
	}
	if got := run(t, w.Mount(again.Lower, 0), 0, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
}

// TestOldCache: the writable caches of an earlier layout go to the trash, with one line in the log.
func TestOldCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	var old []string
	s := w.spec("ref", "main")
	for _, subject := range []volume.Subject{"a", "b"} {
		c := w.m.Get(subject, s.URL)
		co, err := c.Prepare(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		co.Release()
		dir := filepath.Join(c.Dir, "cache")
		if err := os.MkdirAll(filepath.Join(dir, "0", "npm"), 0o755); err != nil {
			t.Fatal(err)
		}
		old = append(old, dir)
	}
	w.restart("boot 1")
	log := test.NewLocal(w.m.config.Log)
	if err := w.m.SweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range old {
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	lines := 0
	for _, e := range log.AllEntries() {
		if strings.Contains(e.Message, "dependency caches in a layout of before") {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("%d lines in the log say that the caches are deleted, want 1", lines)
	}
}
