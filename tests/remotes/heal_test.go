package remotes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// store returns the path of the bare repository of a volume's clone. The subject is the volume's
// name, and has one clone.
func (p *plugin) store(volume string) string {
	return p.onlyPath("data/clones", volume, "*/store/full.git")
}

// onlyPath returns the only path that matches a pattern.
func (p *plugin) onlyPath(elem ...string) string {
	p.t.Helper()
	paths, err := filepath.Glob(p.path(elem...))
	if err != nil || len(paths) != 1 {
		p.t.Fatalf("%s: %q, %v; want one path", filepath.Join(elem...), paths, err)
	}
	return paths[0]
}

// glob returns the paths below dir that match a pattern. At least one must match.
func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s/%s: %q, %v; want at least one path", dir, pattern, paths, err)
	}
	return paths
}

// corrupt changes bytes in all parts of a file.
func corrupt(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 40; i < len(data); i += 997 {
		data[i] ^= 0x55
	}
	// Write a new file, because git layers have hard links to the old one.
	if err := errors.Join(os.Remove(path), os.WriteFile(path, data, 0o444)); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// truncate cuts a file to its first half.
func truncate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// create creates or truncates files.
func create(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamage damages a store on the disk. The next mount works, whether it is at a new commit, or
// for a uid without a tree at the old commit.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, store string)
	}{
		{"bytes of a pack flipped", func(t *testing.T, store string) { corrupt(t, glob(t, store, "objects/pack/*.pack")[0]) }},
		{"pack deleted", func(t *testing.T, store string) { remove(t, glob(t, store, "objects/pack/*.pack")...) }},
		{"pack and index deleted", func(t *testing.T, store string) { remove(t, glob(t, store, "objects/pack/pack-*")...) }},
		{"pack index truncated", func(t *testing.T, store string) { truncate(t, glob(t, store, "objects/pack/*.idx")[0]) }},
		{"pack truncated", func(t *testing.T, store string) { truncate(t, glob(t, store, "objects/pack/*.pack")[0]) }},
		{"packed-refs truncated", func(t *testing.T, store string) { truncate(t, filepath.Join(store, "packed-refs")) }},
		{"packed-refs deleted", func(t *testing.T, store string) { remove(t, filepath.Join(store, "packed-refs")) }},
		{"HEAD deleted", func(t *testing.T, store string) { remove(t, filepath.Join(store, "HEAD")) }},
		{"config empty", func(t *testing.T, store string) { create(t, filepath.Join(store, "config")) }},
		{"store deleted", func(t *testing.T, store string) { remove(t, store) }},
		{"stale locks", func(t *testing.T, store string) {
			if err := os.MkdirAll(filepath.Join(store, "refs/heads"), 0o755); err != nil {
				t.Fatal(err)
			}
			create(t, filepath.Join(store, "packed-refs.lock"), filepath.Join(store, "refs/heads/main.lock"),
				filepath.Join(store, "objects/pack/tmp_pack_x"), filepath.Join(store, "shallow.lock"), filepath.Join(store, "config.lock"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, next := range []string{"a new commit", "another uid"} {
				s, p := serve(t), start(t)
				if err := p.createAndCheck("v", s.head, "repo="+s.url); err != nil {
					t.Fatal(err)
				}
				c.damage(t, p.store("v"))
				s.Reset()
				want, options := s.head, []string{"repo=" + s.url, "subject=v", "uid=7"}
				var err error
				if next == "a new commit" {
					want = s.commit(t, "main")
					err = p.mountAndCheck("v", want)
				} else {
					err = p.createAndCheck("v7", want, options...)
				}
				words := ""
				if err != nil {
					words = "mount: " + err.Error()
					t.Errorf("%s: %v", next, err)
				}
				addLine("disk: "+c.name+", "+next, words)
				if got := strings.Count(p.Log(), "set aside"); got > 1 {
					t.Errorf("%s: cloned again %d times, want at most once", next, got)
				}
				// The store is repaired: the next mount fetches nothing.
				s.Reset()
				if err := p.mountAndCheck("v", want); err != nil {
					t.Errorf("the mount after that: %v", err)
				}
				if got := s.Stats(app).Fetches; got != 0 {
					t.Errorf("the mount after that fetched %d times", got)
				}
				if next == "a new commit" { // only a fetch removes leftovers
					wantNothingLeft(t, p)
				}
				p.stop()
			}
		})
	}
}

// TestLostLayers removes the layers of a clone. The next mount works.
func TestLostLayers(t *testing.T) {
	t.Parallel()
	s, p := serve(t), start(t)
	if err := p.createAndCheck("v", s.head, "repo="+s.url); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, pattern string }{
		{"tree removed", "data/clones/v/*/trees/*"}, {"git layer removed", "data/clones/v/*/refs/*"},
	} {
		remove(t, p.onlyPath(c.pattern))
		err := p.mountAndCheck("v", s.head)
		words := ""
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			words = "mount: " + err.Error()
		}
		addLine("disk: "+c.name, words)
	}
}

// TestDiskFull clones a repository that is too large for the disk. The error says so, and another
// clone on the same disk works before and after.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := startIn(t, smallDisk(t, 24<<20))
	if err := p.createAndCheck("small", s.head, "repo="+s.url); err != nil {
		t.Fatal(err)
	}
	big := serve(t)
	content := noise(1 << 20)
	var changes []gitserver.Change
	for i := range 20 {
		changes = append(changes, gitserver.Change{Path: fmt.Sprint("noise", i), Content: fmt.Sprint(i) + content[i:]})
	}
	// Each file has its own random megabyte, because content that compresses would fit.
	for i := range changes {
		changes[i].Content = noise(1 << 20)
	}
	if _, err := gitserver.Commit(big.Path(app), "main", changes...); err != nil {
		t.Fatal(err)
	}
	err := p.createAndCheck("v", "", "repo="+big.url)
	if err := checkError(err, "out of disk", "free space"); err != nil {
		t.Error(err)
	}
	addLine("disk: full", strings.TrimPrefix(fmt.Sprint("mount: ", err), "mount: <nil>"))
	// The other clone works, and the failed one left nothing that takes space.
	if err := p.mountAndCheck("small", s.head); err != nil {
		t.Errorf("the other clone: %v", err)
	}
	wantNothingLeft(t, p)
	s.commit(t, "main")
	if err := p.mountAndCheck("small", ""); err != nil {
		t.Errorf("the other clone, after a push: %v", err)
	}
}
