package warm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
)

// TestVerifySize checks that the size is the one that package disk measures.
func TestVerifySize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.root, "nm")
	w.write(filepath.Join(dir, "a/x"), "x")
	w.write(filepath.Join(dir, "a/big"), string(make([]byte, 100_000)))
	for _, name := range []string{"a/y", "z"} {
		if err := os.Link(filepath.Join(dir, "a/x"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	size, err := verify(t.Context(), dir, new(shown), ".", new(owners).note)
	want, measureErr := disk.Measure(t.Context(), dir)
	if err != nil || measureErr != nil || size != want || size.Inodes != 4 {
		t.Errorf("got %+v, %v; want %+v, %v", size, err, want, measureErr)
	}
}

// BenchmarkVerify verifies a node_modules of 20,000 files.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	for i := range 20_000 {
		path := filepath.Join(dir, fmt.Sprint("pkg", i/20), fmt.Sprint("f", i))
		if i%20 == 0 {
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := verify(b.Context(), dir, new(shown), ".", new(owners).note); err != nil {
			b.Fatal(err)
		}
	}
}
