package warm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
)

// at returns a Want of a commit whose file lock has that content, in a layer on the tree.
func (w *world) at(content string, paths ...string) Want {
	w.t.Helper()
	dir := filepath.Join(w.root, "tree-"+content)
	w.write(filepath.Join(dir, "lock"), content)
	want := w.want(paths...)
	want.Files, want.Tree, want.Built = []string{"lock"}, []string{dir, w.tree}, meta.Layer{ID: content, Commit: "c" + content}
	return want
}

// TestFiles checks that each content of a file has its own state, which begins with the newest one and is found again.
func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, three := w.at("1", "nm"), w.at("2", "nm"), w.at("3", "nm")
	found := func(want Want, why string) Found {
		t.Helper()
		s := w.open(want)
		defer s.end()
		f := w.m.Found(cloneKey, s.Paths[0])
		if f.Why != why {
			t.Errorf("%s: why %q, want %q", want.Built.ID, f.Why, why)
		}
		return f
	}
	const newest = "it is the newest of the ref: there is none of the same warm_files"
	const ofDefault = "it is that of the default branch: the ref has none"
	write := func(want Want, files ...string) {
		t.Helper()
		s := w.open(want)
		s.Commit = want.Built.Commit
		for _, f := range files {
			s.write("nm/"+f, f)
		}
		s.end()
	}
	write(one, "a")
	if f := found(two, newest); f.Commit != "c1" || f.Size.Inodes == 0 || time.Since(f.BuiltAt).Abs() > time.Hour {
		t.Errorf("%+v", f)
	}
	exact := two
	exact.Exact = true
	w.sees(exact, "nm")
	w.sees(two, "nm", "a=a") // what is not changed makes no state
	found(two, newest)
	write(two, "b")
	w.sees(two, "nm", "a=a", "b=b")
	w.sees(exact, "nm", "a=a", "b=b")
	w.sees(one, "nm", "a=a")
	if f := found(two, ""); f.Commit != "c2" {
		t.Errorf("%+v", f)
	}
	w.sees(three, "nm", "a=a", "b=b")
	write(one, "c") // back, and now the newest
	w.sees(one, "nm", "a=a", "c=c")
	w.sees(three, "nm", "a=a", "c=c")
	w.sees(two, "nm", "a=a", "b=b")

	// The same content, of the default branch, comes before another one of the ref.
	topic := two
	topic.Ref = "refs/heads/topic"
	ofThree := three
	ofThree.Ref = topic.Ref
	found(ofThree, "it is the newest of the default branch: the ref has none, and there is none of the same warm_files")
	write(ofThree, "topic")
	w.sees(topic, "nm", "a=a", "b=b")
	found(topic, ofDefault)
	fourth := w.at("4", "nm")
	fourth.Ref = topic.Ref
	w.sees(fourth, "nm", "a=a", "c=c", "topic=topic")
	found(fourth, newest)

	// A workspace without files, or with other ones, has a state of its own too.
	plain := w.want("nm")
	w.sees(plain, "nm")
	write(plain, "plain")
	w.sees(plain, "nm", "plain=plain")
	other := two
	other.Files = []string{"README", "lock"}
	w.sees(other, "nm", "plain=plain") // the newest
	w.sees(two, "nm", "a=a", "b=b")

	// States are evicted one by one.
	var key string
	for _, h := range w.m.Heads(cloneKey) {
		if h.Chain != nil && h.Ref == two.Ref && strings.HasSuffix(h.Key, "-"+w.sum(two)) {
			key = h.Key
		}
	}
	if err := w.m.Evict(t.Context(), cloneKey, key); err != nil || key == "" {
		t.Errorf("evict %q: %v", key, err)
	}
	w.restart("boot 1")
	w.sees(two, "nm", "plain=plain")
	w.sees(one, "nm", "a=a", "c=c")
	// A state that was removed is one.
	w.run(one, func(s *session) { s.remove("nm") })
	w.sees(one, "nm")
	w.sees(three, "nm")
}

func (w *world) sum(want Want) string {
	w.t.Helper()
	sum, err := w.m.sumFiles(w.t.Context(), want)
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

// TestSumFiles checks that a sum depends on the names and the contents of the files as a checkout shows them, and on
// nothing else.
func TestSumFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := 0
	sum := func(files string, layers ...[]string) string {
		t.Helper()
		n++
		want := w.want()
		want.Files, want.Tree, want.Built.ID = strings.Split(files, ","), nil, fmt.Sprint(n)
		for i, layer := range layers {
			dir := filepath.Join(w.root, fmt.Sprintf("layer-%d-%d", n, i))
			w.mkdir(dir)
			for _, entry := range layer {
				name, content, _ := strings.Cut(entry, "=")
				at := filepath.Join(dir, name)
				w.mkdir(filepath.Dir(at))
				var err error
				switch content {
				case "whiteout":
					err = unix.Mknod(at, unix.S_IFCHR, 0)
				case "directory":
					err = os.Mkdir(at, 0o755)
				case "link":
					err = os.Symlink("real", at)
				case "fifo":
					err = unix.Mkfifo(at, 0o644)
				default:
					err = os.WriteFile(at, []byte(content), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			want.Tree = append(want.Tree, dir)
		}
		return w.sum(want)
	}
	type layer = []string
	big := strings.Repeat("x", 3<<20)
	base := sum("a/lock", layer{"a/lock=1"})
	missing := sum("a/lock", layer{"b=1"})
	for what, tt := range map[string]struct{ got, want string }{
		"below":              {sum("a/lock", layer{"a/other=2"}, layer{"a/lock=1"}), base},
		"changed":            {sum("a/lock", layer{"a/lock=1"}, layer{"a/lock=2"}), base},
		"removed":            {sum("a/lock", layer{"a/lock=whiteout"}, layer{"a/lock=1"}), missing},
		"directory removed":  {sum("a/lock", layer{"a=whiteout"}, layer{"a/lock=1"}), missing},
		"directory replaced": {sum("a/lock", layer{"a=file"}, layer{"a/lock=1"}), missing},
		"behind a link":      {sum("a/lock", layer{"a=link", "real/lock=1"}, layer{"a/lock=1"}), missing},
		"a directory":        {sum("a/lock", layer{"a/lock=directory"}), missing},
		"a fifo":             {sum("a/lock", layer{"a/lock=fifo"}), missing},
		"what a link names":  {sum("a/lock", layer{"a/lock=link", "a/real=1"}), sum("a/lock", layer{"a/lock=link", "a/real=2"})},
		"large":              {sum("a", layer{"a=" + big}), sum("a", layer{"a=" + big})},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", what, tt.got, tt.want)
		}
	}
	different := []string{
		base, missing, sum("a/lock", layer{"a/lock=2"}), sum("a/lock", layer{"a/lock="}), sum("a/lock", layer{"a/lock=link"}), sum("a/lock", layer{"a/lock=real"}),
		sum("b", layer{"b=1"}), sum("a,b", layer{"a=1"}), sum("a,b", layer{"b=1"}), sum("a,b", layer{"a=1", "b=1"}), sum("a", layer{"a=" + big}), sum("a", layer{"a=" + big + "x"}),
		sum("a,b", layer{"a=1b\x00missing\x00"}),
	}
	for i, s := range different {
		if slices.Contains(different[:i], s) || len(s) != 16 {
			t.Errorf("sum %d: %q", i, s)
		}
	}
	// The files of one tree are read once.
	want := w.at("1")
	one := w.sum(want)
	w.write(filepath.Join(want.Tree[0], "lock"), "2")
	if got := w.sum(want); got != one {
		t.Errorf("the second sum of a tree is %q, want %q", got, one)
	}
	want.Built.CreatedAt = time.Now() // built again
	if got := w.sum(want); got == one {
		t.Error("another tree has the same sum")
	}
}

// TestFilesWait checks that a workspace waits for the end of those that may move the state that it is about to begin with.
func TestFilesWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, three := w.at("1", "nm"), w.at("2", "nm"), w.at("3", "nm")
	w.run(two, func(s *session) { s.write("nm/two", "2") })
	s := w.open(one)
	s.write("nm/one", "1")
	done := w.m.Ending(cloneKey, s.Paths)
	w.sees(two, "nm", "two=2") // which has its own: it does not wait for a minute
	exact := three
	exact.Exact = true
	w.sees(exact, "nm")
	w.sees(w.want("nm"), "nm")
	paths := make(chan []meta.WarmPath)
	go func() {
		got, err := w.m.Select(t.Context(), three)
		if err != nil {
			t.Error(err)
		}
		paths <- got
	}()
	s.end()
	select {
	case got := <-paths:
		t.Errorf("it did not wait: %+v", got)
	default:
	}
	done()
	if got := <-paths; len(got[0].Chain) != 2 || got[0].From != s.Paths[0].Head {
		t.Errorf("%+v", got)
	}
}
