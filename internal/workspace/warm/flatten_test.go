package warm

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// TestFlatten checks that a head never has more layers than its limit, and that flattening them
// does not change what a workspace sees.
func TestFlatten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("web/nm")
	topic := nm
	topic.Ref = "refs/heads/topic"
	at := time.Date(2020, 1, 2, 3, 4, 5, 678, time.UTC)
	deep := strings.Repeat("d/", 40)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.run(nm, func(s *session) {
		s.write("web/nm/removed/x", "x")
		s.write("web/nm/file", "f")
		s.write("web/nm/"+deep+"x", "deep")
		s.write("web/nm/a/one", "linked")
		must(os.Link(filepath.Join(s.dir, "web/nm/a/one"), filepath.Join(s.dir, "web/nm/two")))
		must(os.Symlink("../a/one", filepath.Join(s.dir, "web/nm/a/link")))
		must(unix.Setxattr(filepath.Join(s.dir, "web/nm/file"), "user.mine", []byte("v\x00w"), 0))
		must(unix.Setxattr(filepath.Join(s.dir, "web/nm/a"), "user.dir", nil, 0))
		must(unix.Mkfifo(filepath.Join(s.dir, "web/nm/fifo"), 0o600))
		l, err := net.Listen("unix", filepath.Join(s.dir, "web/nm/sock"))
		must(err)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		must(l.Close())
		must(os.Chown(filepath.Join(s.dir, "web/nm/file"), 11, 12))
		must(os.Chmod(filepath.Join(s.dir, "web/nm/file"), os.ModeSetuid|0o751))
		must(os.Lchown(filepath.Join(s.dir, "web/nm/a/link"), 13, 14))
		must(os.Chmod(filepath.Join(s.dir, "web/nm/a"), 0o1700))
		must(os.Chtimes(filepath.Join(s.dir, "web/nm/file"), at, at))
		must(os.Chtimes(filepath.Join(s.dir, "web/nm/a"), at, at))
		must(os.Chtimes(filepath.Join(s.dir, "web/nm/d"), at, at))
	})
	w.run(nm, func(s *session) { s.remove("web/nm/removed") })
	w.run(topic, func(s *session) { s.write("web/nm/topic", "t") })
	for i := 2; i < flattenAt-1; i++ {
		w.run(nm, func(s *session) { s.write("web/nm/n", fmt.Sprint(i)) })
	}
	before := w.open(nm)
	if got := len(before.Paths[0].Chain); got != flattenAt-1 {
		t.Fatalf("%d layers before they are flattened", got)
	}
	w.run(nm, func(s *session) { s.write("web/nm/last", "l") })
	if got := len(w.m.Heads(cloneKey)[0].Chain); got != 1 {
		t.Fatalf("%d layers after they were flattened, want 1", got)
	}
	want := []string{"a/link->../a/one", "a/one=linked", deep + "x=deep", "file=f", "last=l", fmt.Sprintf("n=%d", flattenAt-2), "two=linked"}
	w.run(nm, func(s *session) {
		s.has("web/nm", want...)
		path := filepath.Join(s.dir, "web/nm")
		st, err := upfile.Stat(unix.AT_FDCWD, path+"/file")
		if err != nil || st.Uid != 11 || st.Gid != 12 || st.Mode&0o7777 != 0o4751 || time.Unix(st.Mtim.Unix()).UTC() != at {
			t.Errorf("file: %+v, %v", st, err)
		}
		for _, dir := range []string{"/a", "/d"} {
			if info, err := os.Stat(path + dir); err != nil || !info.ModTime().Equal(at) {
				t.Errorf("%s: %v, %v", dir, info.ModTime(), err)
			}
		}
		if st, err := upfile.Stat(unix.AT_FDCWD, path+"/a"); err != nil || st.Mode&0o7777 != 0o700 {
			t.Errorf("a: %o, %v", st.Mode, err) // os.Chmod ignores 01000: it wants os.ModeSticky
		}
		if st, err := upfile.Stat(unix.AT_FDCWD, path+"/a/link"); err != nil || st.Uid != 13 || st.Gid != 14 {
			t.Errorf("link: %d:%d, %v", st.Uid, st.Gid, err)
		}
		if v, ok, err := upfile.Attribute(path+"/file", "user.mine"); v != "v\x00w" || !ok || err != nil {
			t.Errorf("attribute %q, %v", v, err)
		}
		if _, ok, err := upfile.Attribute(path+"/a", "user.dir"); !ok || err != nil {
			t.Errorf("attribute of a directory: %v", err)
		}
	})
	w.sees(topic, "web/nm", "a/link->../a/one", "a/one=linked", deep+"x=deep", "fifo", "file=f", "sock", "topic=t", "two=linked")
	before.end()
	flat := w.m.Heads(cloneKey)
	held := append(slices.Clone(flat[0].Chain), flat[1].Chain...)
	slices.Sort(held)
	if got := w.layers(); !slices.Equal(got, held) {
		t.Errorf("layers %q, heads %q", got, held)
	}
	w.restart("boot 2")
	w.sees(nm, "web/nm", want...)
}

// TestFlattenMeanwhile checks that a workspace that got the layers before they were flattened
// can still move the head, and that a layer promoted during the copy stays on top.
func TestFlattenMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	for i := range flattenAt - 1 {
		w.run(nm, func(s *session) { s.write(fmt.Sprint("nm/", i), "x") })
	}
	head := w.m.Heads(cloneKey)[0].WarmHead
	late := w.open(nm)
	late.write("nm/late", "l")
	late.remove("nm/0")
	later := w.open(nm)
	if err := w.m.flatten(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	if got := w.chain(); len(got) != 1 {
		t.Fatalf("chain %q", got)
	}
	late.end()
	if got := w.chain(); len(got) != 2 {
		t.Fatalf("chain %q", got)
	}
	later.write("nm/later", "l")
	later.end() // too late: another one has moved the head
	want := []string{"1=x", "2=x", "3=x", "4=x", "5=x", "6=x", "late=l"}
	w.sees(nm, "nm", want...)
	// The head moves between the copy and the end of flatten.
	head = w.m.Heads(cloneKey)[0].WarmHead
	w.run(nm, func(s *session) { s.write("nm/top", "t") })
	if err := w.m.flatten(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	if got := w.chain(); len(got) != 2 {
		t.Fatalf("chain %q", got)
	}
	w.work.Wait()
	w.sees(nm, "nm", append(want, "top=t")...)
	// The head is evicted meanwhile.
	head = w.m.Heads(cloneKey)[0].WarmHead
	w.m.Hold(cloneKey, late.Paths)
	if err := w.m.Evict(t.Context(), cloneKey, head.Key); err != nil {
		t.Fatal(err)
	}
	if err := w.m.flatten(t.Context(), head); err == nil {
		t.Error("evicted layers were flattened")
	}
	w.m.Drop(cloneKey, late.Paths)
	w.work.Wait()
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers %q", got)
	}
}

// TestFullHead checks that nothing is promoted to a head with the maximum of layers.
func TestFullHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.run(nm, func(s *session) { s.write("nm/0", "x") })
	h := w.m.Heads(cloneKey)[0].WarmHead
	chain := slices.Repeat(h.Chain, maxChain)
	w.m.mu.Lock()
	h.Chain = chain
	w.m.clones[cloneKey].heads[h.Key] = h
	w.m.mu.Unlock()
	e := Ended{Clone: cloneKey, Upper: filepath.Join(w.root, "upper"), UID: user, GID: user, Ref: nm.Ref}
	paths, err := w.m.Select(t.Context(), nm)
	if err != nil {
		t.Fatal(err)
	}
	e.Paths = paths
	w.write(filepath.Join(e.Upper, "nm/1"), "x")
	if err := w.m.Promote(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := w.m.Heads(cloneKey)[0].Chain; !slices.Equal(got, chain) {
		t.Errorf("%d layers", len(got))
	}
}
