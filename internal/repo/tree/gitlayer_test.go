package tree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestPromisorMarkCannotBeCopied checks that it is an error if the mark of a partial clone's pack
// can't be copied: without it, git would take missing objects for damage.
func TestPromisorMarkCannotBeCopied(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, ext := range []string{".pack", ".idx", ".promisor"} {
		if err := os.WriteFile(filepath.Join(from, "pack-1"+ext), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var w ownedWriter
	if n, err := w.linkPacks(from, to); n != 1 || errors.Join(err, w.err) != nil {
		t.Fatal(n, err, w.err)
	}
	to = t.TempDir()
	if err := os.Mkdir(filepath.Join(to, "pack-1.promisor"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.linkPacks(from, to); errors.Join(err, w.err) == nil {
		t.Error("no error although the mark can't be written")
	}
}
