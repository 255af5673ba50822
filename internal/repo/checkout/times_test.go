package checkout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestCopyTimes checks that files which are the same in the reference get their times there.
func TestCopyTimes(t *testing.T) {
	t.Parallel()
	withBothGits(t, testCopyTimes)
}

func testCopyTimes(t *testing.T, g tester) {
	w, top := newTrees(t, g), testgit.Scratch(t, g.root)
	const object = "what git-lfs keeps\n"
	sum := sha256.Sum256([]byte(object))
	oid := hex.EncodeToString(sum[:])
	pointer := w.Blob(fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(object)))
	storage := filepath.Join(top, "lfs")
	if err := os.MkdirAll(filepath.Dir(lfs.Object(storage, oid)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lfs.Object(storage, oid), []byte(object), 0o644); err != nil {
		t.Fatal(err)
	}
	checkOut := func(name, commit string, like Reference) Spec {
		t.Helper()
		c := Spec{Store: w.Store, Commit: commit, Dir: checkoutDir(t, top, name), TimesFrom: like}
		f, err := g.make(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.fill(t.Context(), c, storage, f.Pointers); err != nil {
			t.Fatal(err)
		}
		return c
	}
	text, other, link := w.Blob("text\n"), w.Blob("TEXT\n"), w.Blob("same")
	lfs := w.Blob("*.bin filter=lfs -text\n")
	files := map[string]string{
		".gitattributes": "100644 " + lfs, "same": "100644 " + text, "content": "100644 " + text, "mode": "100644 " + text,
		"link": "120000 " + link, "x.bin": "100644 " + pointer, "future": "100644 " + text,
		"d/.gitattributes": "100644 " + w.Blob("none text\n"), "d/same": "100644 " + text, "d/lower": "100644 " + text,
		"d/link": "120000 " + link, "d/crlf": "100644 " + text, "d/x.bin": "100644 " + pointer, "d/deep/f": "100644 " + text,
		"gone/.gitattributes": "100644 " + w.Blob("f eol=crlf\n"), "gone/f": "100644 " + text, "gone/same": "100644 " + text,
		"come/f": "100644 " + text, "come/same": "100644 " + text, "dx": "100644 " + text, "old": "100644 " + text,
	}
	was := checkOut("was", w.Commit(files), Reference{})
	ix, err := was.readIndex(IndexFile)
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-time.Hour)
	for _, e := range ix.Entries {
		e.SetStat(&unix.Stat_t{Mtim: unix.NsecToTimespec(then.UnixNano())})
	}
	if err := ix.complete(); err != nil {
		t.Fatal(err)
	}
	for _, e := range ix.Entries {
		if e.Name() == "future" { // as if the clock was set back since
			e.SetStat(&unix.Stat_t{Mtim: unix.Timespec{Sec: time.Now().Add(time.Hour).Unix()}, Size: int64(e.Size())})
		}
	}
	if err := ix.write(); err != nil {
		t.Fatal(err)
	}
	// One file is in the layer below.
	lower := filepath.Join(top, "lower")
	if err := os.MkdirAll(filepath.Join(lower, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(was.Dir, "d/lower"), filepath.Join(lower, "d/lower")); err != nil {
		t.Fatal(err)
	}
	for name, info := range map[string]string{
		"content": "100644 " + other, "mode": "100755 " + text,
		"d/.gitattributes":    "100644 " + w.Blob("none text\ncrlf eol=crlf\n"),
		"come/.gitattributes": "100644 " + w.Blob("f eol=crlf\n"), "fresh": "100644 " + text,
	} {
		files[name] = info
	}
	delete(files, "gone/.gitattributes")
	delete(files, "old")
	commit := w.Commit(files)
	same := []string{
		".gitattributes", "same", "link", "x.bin", "d/same", "d/lower", "d/link", "d/deep/f", "gone/same", "come/same", "dx",
	}
	reference := Reference{Index: filepath.Join(was.Dir, ".git", IndexFile), Dirs: []string{was.Dir, lower}}
	damaged := filepath.Join(top, "index.damaged")
	data, err := os.ReadFile(reference.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(damaged, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		like Reference
		want []string
	}{
		{"whole", reference, same},
		{"without files", Reference{Index: reference.Index}, []string{".gitattributes", "same", "link", "x.bin", "d/link", "dx"}},
		{"damaged", Reference{Index: damaged, Dirs: reference.Dirs}, nil},
		{"empty", Reference{Index: emptyFile(t, filepath.Join(top, "index.empty")), Dirs: reference.Dirs}, nil},
	} {
		c := checkOut(tt.name, commit, tt.like)
		want := make(map[string]bool)
		for _, name := range tt.want {
			want[name] = true
		}
		now := time.Now()
		for name := range files {
			info, err := os.Lstat(filepath.Join(c.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.ModTime().Equal(then); got != want[name] {
				t.Errorf("%s: %s has the time %v, want that of the reference, %v: %v", tt.name, name, info.ModTime(), then, want[name])
			}
			if info.ModTime().After(now) {
				t.Errorf("%s: %s has the time %v, in the future", tt.name, name, info.ModTime())
			}
		}
		for _, name := range []string{"x.bin", "d/x.bin"} {
			if data, err := os.ReadFile(filepath.Join(c.Dir, name)); string(data) != object {
				t.Errorf("%s: %s is %q, %v", tt.name, name, data, err)
			}
		}
		got, err := c.readIndex(IndexFile)
		if err != nil {
			t.Fatal(err)
		}
		if list := stale(t, got); len(list) > 0 {
			t.Errorf("%s: the entries of %q differ from lstat", tt.name, list)
		}
	}
}

// stale lists the files whose entries differ from lstat.
func stale(t *testing.T, ix *index) (list []string) {
	t.Helper()
	for _, e := range ix.Entries {
		info, err := os.Lstat(filepath.Join(ix.checkout.Dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Mtime() != info.ModTime().UnixNano() || e.Size() != uint32(info.Size()) {
			list = append(list, e.Name())
		}
	}
	return list
}
