package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestHostileRepositoriesHaveNoEffect mounts every hostile repository that needs submodules or
// git-lfs for its attack. The Mount may succeed or fail. Nothing from the repository may run, no file
// outside may be read or written, and no other server may be asked.
func TestHostileRepositoriesHaveNoEffect(t *testing.T) {
	t.Parallel()
	baitServer := testgit.Serve(t)
	dir := t.TempDir()
	bait := hostile.Bait{Canary: filepath.Join(dir, "canary"), Outside: filepath.Join(dir, "outside"), URL: baitServer.URL("")}
	bait.URL = bait.URL[:len(bait.URL)-1]
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(bait.Outside, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bait.Outside, "secret"), []byte(hostile.Secret), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testgit.Serve(t)
	p := start(t, scratch(t))
	tried := 0
	for _, c := range hostile.Cases() {
		if c.Need == hostile.Checkout {
			continue
		}
		tried++
		t.Run(c.Name, func(t *testing.T) {
			short.OneOf(t, 5)
			if _, err := c.Build(filepath.Dir(s.Path("x")), c.Name, bait); err != nil {
				t.Fatal(err)
			}
			if c.Unwalkable {
				s.Route(c.Name, gitserver.SendAll(s.Path(c.Name)))
			}
			before := list(t, bait.Outside)
			p.create(c.Name, map[string]string{"repo": s.URL(c.Name), "submodules": "recursive"})
			dir, err := p.Mount(t.Context(), c.Name, "1")
			t.Logf("%v", err)
			if err == nil {
				for path, text := range list(t, dir) {
					if text == hostile.Secret {
						t.Errorf("the secret is in the tree, at %s", path)
					}
				}
				p.unmount(c.Name, "1")
			}
			if _, err := os.Lstat(bait.Canary); err == nil {
				t.Error("the canary exists: something ran")
			}
			if got := baitServer.Requests(); len(got) > 0 {
				t.Errorf("another server was asked: %v", got)
				baitServer.Reset()
			}
			after := list(t, bait.Outside)
			if len(after) != len(before) || after["secret"] != hostile.Secret {
				t.Errorf("the directory outside has changed: %v, before %v", after, before)
			}
		})
	}
	if tried < 40 {
		t.Errorf("%d cases, want all of them", tried)
	}
}

// list returns all paths below dir, with the contents of small files. It follows no symlink.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		found[rel] = ""
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<10 {
			return err
		}
		data, err := os.ReadFile(path)
		found[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
