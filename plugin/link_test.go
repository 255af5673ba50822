package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/tests/testgit"
)

// packsOf returns the files of the packs of a .git.
func packsOf(t *testing.T, gitDir string) []string {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(gitDir, "objects/pack/pack-*.[pi]*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs of %s: %v, %v", gitDir, packs, err)
	}
	return packs
}

// statOf describes a file.
func statOf(t *testing.T, path string) syscall.Stat_t {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// TestPacksCanBeLinked clones workspaces, and submodules in them, as a plain clone can be cloned: the packs belong to
// the volume's user, and a link is the same file. Nothing is copied for a link. With -short it clones some of them.
func TestPacksCanBeLinked(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	sub := newRepo(t, s, "sub")
	at := sub.commit(map[string]string{"f": "1"}, nil)
	super := newRepo(t, s, "super")
	super.commit(map[string]string{"big": strings.Repeat("x", 100), ".gitmodules": section("m", "lib/m", "../sub")}, map[string]string{"lib/m": at})
	if err := s.Configure("super", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	shapes := []map[string]string{
		{}, {"submodules": "true", "uid": "1000", "gid": "1000"}, {"filter": "blob:none", "uid": "1000", "gid": "1000"},
		{"uid": "1000", "gid": "1000"}, {"submodules": "true"}, {"depth": "1"}, {"mode": "keep"}, {"cold": "shallow"}, {"warm": "nm"}, {"warm": "nm", "uid": "1000", "gid": "1000"},
	}
	if testing.Short() {
		shapes = shapes[:3]
	}
	for i, tt := range shapes {
		name, uid := "v"+strconv.Itoa(i), 0
		if tt["uid"] != "" {
			uid = 1000
		}
		p.create(name, mapWith(tt, "repo", s.URL("super")))
		dir := p.mount(name, "1")
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		places := []string{"."}
		if tt["submodules"] != "" {
			places = append(places, "lib/m")
		}
		for _, place := range places {
			work := filepath.Join(dir, place)
			gitDir := testgit.GitAs(t, uid, work, "rev-parse", "--absolute-git-dir")
			head := testgit.GitAs(t, uid, work, "rev-parse", "HEAD")
			for _, flags := range [][]string{nil, {"--local"}, {"--bare"}, {"--no-hardlinks"}, {"--shared"}} {
				to := filepath.Join(work, "copy"+strings.Join(flags, ""))
				testgit.GitAs(t, uid, work, append(append([]string{"clone", "-q"}, flags...), ".", to)...)
				if got := testgit.GitAs(t, uid, to, "rev-parse", "HEAD"); got != head {
					t.Errorf("%v, clone %v of %s: at %s, want %s", tt, flags, place, got, head)
				}
			}
			shallow := tt["depth"] != "" || testgit.GitAs(t, uid, work, "rev-parse", "--is-shallow-repository") == "true"
			for _, path := range packsOf(t, gitDir) {
				st := statOf(t, path)
				if promisor := strings.HasSuffix(path, ".promisor"); st.Uid != uint32(uid) || st.Mode&0o777 != 0o444 && !promisor {
					t.Errorf("%v: %s belongs to %d and has mode %o, want %d and 444", tt, path, st.Uid, st.Mode, uid)
				}
				if shallow {
					continue // git does not link from it
				}
				link := filepath.Join(work, "copy--local/.git/objects/pack", filepath.Base(path))
				if got := statOf(t, link); got.Ino != st.Ino || got.Nlink != st.Nlink || st.Nlink < 3 {
					t.Errorf("%v: %s is not a link of %s", tt, link, path)
				}
			}
			testgit.GitAs(t, uid, work, "fsck", "--connectivity-only")
			// The links stay when the original is packed again.
			testgit.GitAs(t, uid, work, "repack", "-q", "-a", "-d")
			if !shallow {
				testgit.GitAs(t, uid, filepath.Join(work, "copy--local"), "fsck", "--full")
			}
		}
	}
	// A link needs no room for the pack: its upper has names alone.
	random := newRepo(t, s, "random")
	data := make([]byte, 8<<20)
	for i := range data {
		data[i] = byte(i*i>>8) ^ byte(i>>3)*31 ^ byte(uint32(i)*2654435761>>24)
	}
	random.commit(map[string]string{"data": string(data)}, nil)
	p.create("random", map[string]string{"repo": random.url})
	dir := p.mount("random", "1")
	pack := packsOf(t, filepath.Join(dir, ".git"))
	var size int64
	for _, path := range pack {
		size += statOf(t, path).Size
	}
	testgit.Git(t, dir, "clone", "-q", "--bare", "--local", ".", "copy")
	upper := p.glob("clones/*/*/workspaces/" + filepath.Base(dir) + "/upper")[0]
	if taken, err := (disk.Query{}).Take(t.Context(), upper); err != nil || size < 1<<20 || taken.Bytes > size/2 {
		t.Errorf("after a clone of packs of %d bytes the upper takes %d (%v), want much less", size, taken.Bytes, err)
	}
}
