package tree

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// TestStubs checks what is made for the packs of a repository and of submodules, also nested ones: files without data,
// and nothing for other files.
func TestStubs(t *testing.T) {
	dir := testdir.New(t, "stubs")
	for path, text := range map[string]string{
		"git/objects/pack/pack-1.pack": "12345", "git/objects/pack/pack-1.idx": "1", "git/objects/pack/pack-1.promisor": "p", "git/HEAD": "h",
		"modules/a b/objects/pack/pack-2.pack": "123", "modules/a b/modules/c/objects/pack/pack-3.idx": "33", "modules/a b/config": "c",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	owned := filepath.Join(dir, "owned")
	w := ownedWriter{uid: 1000, gid: 1001}
	if err := w.ownPacks(t.Context(), owned, filepath.Join(dir, "git"), filepath.Join(dir, "modules")); err != nil || w.err != nil {
		t.Fatal(err, w.err)
	}
	want := map[string]int64{
		"objects/pack/pack-1.pack": 5, "objects/pack/pack-1.idx": 1,
		"modules/a b/objects/pack/pack-2.pack": 3, "modules/a b/modules/c/objects/pack/pack-3.idx": 2,
	}
	err := filepath.Walk(owned, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Uid != 1000 || st.Gid != 1001 {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		if info.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(filepath.Join(owned, ".git"), path)
		if size, ok := want[rel]; !ok || info.Size() != size || st.Blocks*512 > 4096 || st.Nlink != 1 || info.Mode().Perm() != 0o444 {
			t.Errorf("%s: size %d, %d blocks, %d links, mode %s", rel, info.Size(), st.Blocks, st.Nlink, info.Mode())
		}
		delete(want, rel)
		_, err = unix.Lgetxattr(path, "trusted.overlay.metacopy", nil)
		return err
	})
	if err != nil || len(want) > 0 {
		t.Errorf("%v; missing: %v", err, want)
	}
}

// TestStubsWithoutSubmodules checks a tree that names submodules and has none of them.
func TestStubsWithoutSubmodules(t *testing.T) {
	dir := testdir.New(t, "stubs")
	git := filepath.Join(dir, "git")
	if err := os.MkdirAll(filepath.Join(git, "objects/pack"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := ownedWriter{uid: 1000, gid: 1000}
	if err := w.ownPacks(t.Context(), filepath.Join(dir, "owned"), git, filepath.Join(dir, "modules")); err != nil || w.err != nil {
		t.Error(err, w.err)
	}
}

// BenchmarkStubs makes the stubs of ten packs.
func BenchmarkStubs(b *testing.B) {
	dir := testdir.New(b, "stubs")
	pack := filepath.Join(dir, "git/objects/pack")
	if err := os.MkdirAll(pack, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range 10 {
		for _, ext := range []string{".pack", ".idx"} {
			if err := os.WriteFile(filepath.Join(pack, "pack-"+strconv.Itoa(i)+ext), nil, 0o444); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := 0
	for b.Loop() {
		n++
		w := ownedWriter{uid: 1000, gid: 1000}
		if err := w.ownPacks(b.Context(), filepath.Join(dir, strconv.Itoa(n)), filepath.Join(dir, "git"), ""); err != nil {
			b.Fatal(err)
		}
	}
}
