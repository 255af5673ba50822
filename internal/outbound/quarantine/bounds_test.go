package quarantine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestReadingEndsWithContext: no directory and no ref is read after the end of the context, however many there are.
func TestReadingEndsWithContext(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r, err := s.repo()
	s.must(err)
	ctx, hangUp := context.WithCancelCause(t.Context())
	r.ctx = ctx
	reason := errors.New("the client has hung up")
	hangUp(reason)
	s.write(".git/packed-refs", s.base+" refs/heads/packed\n")
	s.write(".git/objects/00/junk", "")
	for name, f := range map[string]func() error{
		"loose":     func() error { _, err := r.loose(io.Discard); return err },
		"packs":     func() error { _, err := r.packs(); return err },
		"branches":  func() error { _, err := r.Differing(); return err },
		"refs":      func() error { return r.eachPacked(func([]byte, []byte) error { return nil }) },
		"worktrees": func() error { s.write(".git/worktrees/w/HEAD", s.base); _, err := r.Worktrees(); return err },
	} {
		if err := f(); err != reason {
			t.Errorf("%s: %v, want %v", name, err, reason)
		}
	}
}

// TestLongNames: ten small trees have a hundred thousand files with names of 2 KB. What is looked for among them is
// bounded in bytes.
func TestLongNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, want string }{
		{"%06d.bin", "the new commits change more than 200000 files, or names of more than 16777216 bytes"},
		{"%06d/.gitattributes", "the branch has more than 20000 files named .gitattributes, or names of"},
	} {
		s := newLFSScene(t)
		trees := testgit.Trees{T: t, Store: s.dotGit("")}
		blob, list := trees.Blob("* filter=lfs\n"), []string{trees.Entry("100644", ".gitattributes", trees.Blob("*.bin filter=lfs\n"))}
		within := trees.Tree(trees.Entry("100644", ".gitattributes", blob))
		var entries []string
		for i := range 10_000 {
			if name, _, ok := strings.Cut(fmt.Sprintf(tt.name, i), "/"); ok {
				entries = append(entries, trees.Entry("40000", name, within))
			} else {
				entries = append(entries, trees.Entry("100644", name, blob))
			}
		}
		tree := trees.Tree(entries...)
		for range 8 {
			tree = trees.Tree(trees.Entry("40000", strings.Repeat("d", 250), tree))
		}
		list = append(list, trees.Entry("40000", "long", tree))
		s.git("update-ref", "refs/heads/work", trees.CommitTree(list...))
		taken, _ := s.mustTake("work")
		_, err := taken.Raw(t.Context())
		s.must(taken.Close())
		s.wantRefusal(err, TooLarge, tt.want)
	}
}

// TestEndlessLists: a few trees have 10^15 files, or many commits change the same files. What git lists of them is bounded.
func TestEndlessLists(t *testing.T) {
	t.Parallel()
	const attributes = "*.bin filter=lfs\n"
	for name, make := range map[string]func(trees testgit.Trees) (commit string){
		"a list of the branch's files": func(trees testgit.Trees) string {
			tree := trees.Tree(trees.Entry("100644", "x", trees.Blob("x")))
			for range 15 {
				var entries []string
				for i := range 10 {
					entries = append(entries, trees.Entry("40000", fmt.Sprint(strings.Repeat("d", 240), i), tree))
				}
				tree = trees.Tree(entries...)
			}
			return trees.CommitTree(trees.Entry("40000", "bomb", tree))
		},
		"a list of what the new commits change": func(trees testgit.Trees) (commit string) {
			list := trees.Entry("100644", ".gitattributes", trees.Blob(attributes))
			var both [2]string
			for side := range both {
				blob, entries := trees.Blob(fmt.Sprint(side)), []string(nil)
				for i := range 2000 {
					entries = append(entries, trees.Entry("100644", fmt.Sprintf("%06d.bin", i), blob))
				}
				tree := trees.Tree(entries...)
				for range 12 {
					tree = trees.Tree(trees.Entry("40000", strings.Repeat("d", 250), tree))
				}
				both[side] = trees.Tree(list, trees.Entry("40000", "long", tree))
			}
			for i := range 50 {
				args := []string{"commit-tree", "-m", "x", both[i%2]}
				if commit != "" {
					args = append(args, "-p", commit)
				}
				commit = trees.Git("", nil, args...)
			}
			return commit
		},
	} {
		s := newLFSScene(t)
		s.git("update-ref", "refs/heads/work", make(testgit.Trees{T: t, Store: s.dotGit("")}))
		taken, _ := s.mustTake("work")
		_, err := taken.Raw(t.Context())
		s.must(taken.Close())
		s.wantRefusal(err, TooLarge, name+" has more than 268435456 bytes")
	}
}

// TestLongListsTakeTurns: one push at a time has long lists of files, and others do not wait for it.
func TestLongListsTakeTurns(t *testing.T) {
	t.Parallel()
	s := newLFSScene(t)
	s.write(".gitattributes", "*.bin filter=lfs\n")
	s.write("one.bin", "content")
	s.git("add", ".")
	s.git("commit", "-q", "-m", "few files")
	s.git("branch", "few")
	for i := range maxChanges/smallPart + 1 {
		s.write(fmt.Sprintf("%06d.txt", i), "content")
	}
	s.git("add", ".")
	s.git("commit", "-q", "-m", "many files")
	s.git("branch", "many")
	few, _ := s.mustTake("few")
	many, _ := s.mustTake("many")
	defer func() { s.must(errors.Join(few.Close(), many.Close())) }()
	turn, err := s.q.large.Acquire(t.Context(), work.CPU, false)
	s.must(err)
	ctx, hangUp := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := many.Raw(ctx)
		ended <- err
	}()
	for s.q.large.Load()[work.CPU].Waiting == 0 {
		select {
		case err := <-ended:
			t.Fatalf("two have long lists: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	want := []string{"one.bin"}
	if list, err := few.Raw(t.Context()); err != nil || !slices.Equal(list, want) {
		t.Errorf("few files beside long lists: %v, %v", list, err)
	}
	reason := errors.New("the client has hung up")
	hangUp(reason)
	if err := <-ended; err != reason {
		t.Errorf("many files, given up: %v", err)
	}
	turn.Release()
	if list, err := many.Raw(t.Context()); err != nil || !slices.Equal(list, want) {
		t.Errorf("many files: %v, %v", list, err)
	}
}

// TestObjectIDs compares with a list of strings.
func TestObjectIDs(t *testing.T) {
	t.Parallel()
	for _, size := range []int{20, 32} {
		random := rand.NewChaCha8([32]byte{byte(size)})
		ids, want := &objectIDs{size: size}, []string(nil)
		for i := range 1000 {
			id := make([]byte, size)
			random.Read(id)
			if id = id[:]; i%3 == 0 {
				clear(id[:size-1]) // some are the same
			}
			want = append(want, hex.EncodeToString(id))
			ids.add([]byte(want[i]))
		}
		slices.Sort(want)
		want = slices.Compact(want)
		ids.sort()
		if got := slices.Collect(ids.all()); !slices.Equal(got, want) {
			t.Errorf("%d IDs of %d bytes, want %d", len(got), size, len(want))
		}
		if err := iotest.TestReader(ids.lines("^"), []byte("^"+strings.Join(want, "\n^")+"\n")); err != nil {
			t.Errorf("lines of IDs of %d bytes: %v", size, err)
		}
		for _, id := range want {
			if !ids.has(id) {
				t.Errorf("%s is missing", id)
			}
		}
		for _, id := range []string{"", "zz", strings.Repeat("0", 2*size-1) + "z", strings.Repeat("f", 2*size), want[0][2:]} {
			if ids.has(id) {
				t.Errorf("%q is there", id)
			}
		}
	}
	none := new(objectIDs)
	if none.sort(); none.Len() != 0 || none.has(strings.Repeat("0", 40)) || len(slices.Collect(none.all())) != 0 {
		t.Error("none has some")
	}
}

// TestManyRefsOfTheRemote: the refs of the git layer, of which a remote may have half a million, are kept in 20 bytes each,
// and are written to git without more memory.
func TestManyRefsOfTheRemote(t *testing.T) {
	s := newScene(t)
	var refs strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&refs, "%040x refs/tags/%s%d\n^%s\n", i, strings.Repeat("x", 50), i, s.base)
	}
	s.must(os.WriteFile(s.layer+"/packed-refs", []byte("# pack-refs with: peeled fully-peeled sorted \n"+refs.String()), 0o644))
	l, err := readLayer(s.layer)
	if err != nil || l.format != gitref.SHA1 || l.bases.Len() != 200_001 || cap(l.bases.bytes) > 10<<20 || !l.has(fmt.Sprintf("%040x", 77)) || !l.has(s.base) {
		t.Errorf("%d IDs in %d bytes, %v", l.bases.Len(), cap(l.bases.bytes), err)
	}
	taken := &Taken{Branches: []Branch{{ID: s.base}}, layer: l}
	written := int64(0)
	allocs := testing.AllocsPerRun(1, func() { written, err = io.Copy(struct{ io.Writer }{io.Discard}, taken.wants()) })
	if err != nil || written != 41+42*200_001 {
		t.Errorf("%d bytes for git, %v", written, err)
	}
	if !testing.Short() && allocs > 100 {
		t.Errorf("%.0f allocations", allocs)
	}
	for _, bad := range []string{"nonsense\n", strings.Repeat("a", 64) + " refs/heads/x\n"} {
		s.must(os.WriteFile(s.layer+"/packed-refs", []byte(s.base+" refs/heads/main\n"+bad), 0o644))
		if _, err := readLayer(s.layer); err == nil || !strings.Contains(err.Error(), "packed-refs has the line") {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

// TestNamesAreBounded: a list of branches, of packs, or of loose objects keeps what matters of a directory, and not all
// of its names.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	r := &Repo{ctx: t.Context(), layer: layer{format: gitref.SHA1}, heads: map[string]string{"refs/heads/packed": "x", "refs/heads/b": "x"}}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r.dir = root
	if names, err := r.names(); err != nil || !slices.Equal(names, []string{"b", "packed"}) {
		t.Errorf("without refs/heads: %q, %v", names, err)
	}
	for _, name := range []string{"b", "a", "-option", "x.lock", "c/d/e", "c/f"} {
		write("refs/heads/" + name)
	}
	if names, err := r.names(); err != nil || !slices.Equal(names, []string{"a", "b", "c/d/e", "c/f", "packed"}) {
		t.Errorf("%q, %v", names, err)
	}
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	for _, name := range []string{"pack-" + two + ".pack", "pack-" + one + ".pack", "pack-" + one + ".idx", "tmp_pack_x", "pack-x.pack"} {
		write("objects/pack/" + name)
	}
	if names, err := r.packs(); err != nil || !slices.Equal(names, []string{"pack-" + one, "pack-" + two}) {
		t.Errorf("packs: %q, %v", names, err)
	}
	var ids bytes.Buffer
	write("objects/11/" + one[2:])
	write("objects/22/" + two[2:])
	write("objects/22/tmp_obj_x")
	if n, err := r.loose(&ids); err != nil || n != 2 || hex.EncodeToString(ids.Bytes()) != one+two {
		t.Errorf("%d loose objects: %x, %v", n, ids.Bytes(), err)
	}
	full := errors.New("the disk is full")
	if _, err := r.loose(writerFunc(func([]byte) (int, error) { return 0, full })); err != full {
		t.Errorf("a list that can't be kept: %v", err)
	}
	for n := range maxPacks {
		write(fmt.Sprintf("objects/pack/pack-%040d.pack", n))
	}
	if names, err := r.packs(); len(names) > maxPacks+1 || err == nil || !strings.Contains(err.Error(), "more than 500 packs") {
		t.Errorf("%d packs, %v", len(names), err)
	}
	deep := "refs/heads/" + strings.Repeat(strings.Repeat("d", 200)+"/", 4)
	for n := range maxBranchBytes/800 + 1 {
		write(fmt.Sprint(deep, n))
	}
	if names, err := r.names(); names != nil || err == nil || !strings.Contains(err.Error(), "bytes of their names") {
		t.Errorf("%d branches, %v", len(names), err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "refs")); err != nil {
		t.Fatal(err)
	}
	for n := range maxBranchBytes/800 + 1 {
		if err := os.MkdirAll(filepath.Join(dir, deep, fmt.Sprint(n)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := r.names(); names != nil || err == nil || !strings.Contains(err.Error(), "bytes of their names") {
		t.Errorf("directories: %d branches, %v", len(names), err)
	}
}

// TestHugeSizes: no sum of sizes that a container wrote is so large that it is negative.
func TestHugeSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 62} {
		head := fmt.Sprintf("blob %d\x00", size)
		if _, got, err := looseHeader(bufio.NewReader(strings.NewReader(head))); err != nil || got != size {
			t.Errorf("%q: %d, %v", head, got, err)
		}
		m := &meter{maxBytes: 1 << 30, maxObjects: 10}
		for range 3 {
			if err := errors.Join(m.add(1), m.count(1)); err != nil {
				t.Error(err)
			}
			if m.add(size) == nil || m.count(size) == nil {
				t.Errorf("%d is counted", size)
			}
		}
	}
	for _, head := range []string{"blob 9223372036854775808\x00", "blob -1\x00", "blob 18446744073709551615\x00"} {
		if _, size, err := looseHeader(bufio.NewReader(strings.NewReader(head))); err == nil {
			t.Errorf("%q: %d", head, size)
		}
	}
}
