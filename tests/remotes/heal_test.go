package remotes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver"
)

// store is the clone's bare repository on disk; there is one clone below dir for the subject, which is the volume's name.
func (p *plugin) store(volume string) string { return p.one("data/clones", volume, "*/store/full.git") }

// one is the one path that fits.
func (p *plugin) one(elem ...string) string {
	p.t.Helper()
	found, err := filepath.Glob(p.path(elem...))
	if err != nil || len(found) != 1 {
		p.t.Fatalf("%s: %q, %v; want one", filepath.Join(elem...), found, err)
	}
	return found[0]
}

// glob is the paths below dir that fit, of which there must be some.
func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s/%s: %q, %v; want some", dir, pattern, found, err)
	}
	return found
}

// flip spoils bytes all over a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 40; i < len(data); i += 997 {
		data[i] ^= 0x55
	}
	// A new file: the old one is linked into workspaces.
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

// truncate keeps the first half.
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

func create(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamage damages what is on the disk. The next mount, at a new commit, works, and so does one for a uid that has no
// tree yet at the commit that is there.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, store string)
	}{
		{"bytes of a pack flipped", func(t *testing.T, store string) { flip(t, glob(t, store, "objects/pack/*.pack")[0]) }},
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
			create(t, filepath.Join(store, "packed-refs.lock"), filepath.Join(store, "refs/heads/main.lock"),
				filepath.Join(store, "objects/pack/tmp_pack_x"), filepath.Join(store, "shallow.lock"), filepath.Join(store, "config.lock"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, next := range []string{"a new commit", "another uid"} {
				s, p := serve(t), start(t)
				if err := p.works("v", s.head, "repo="+s.url); err != nil {
					t.Fatal(err)
				}
				c.damage(t, p.store("v"))
				s.Reset()
				want, options := s.head, []string{"repo=" + s.url, "subject=v", "uid=7"}
				var err error
				if next == "a new commit" {
					want = s.commit(t, "main")
					err = p.mounts("v", want)
				} else {
					err = p.works("v7", want, options...)
				}
				words := ""
				if err != nil {
					words = "mount: " + err.Error()
					t.Errorf("%s: %v", next, err)
				}
				told("disk: "+c.name+", "+next, words)
				if got := strings.Count(p.Log(), "set aside"); got > 1 {
					t.Errorf("%s: cloned again %d times, want once at most", next, got)
				}
				// Once is enough.
				s.Reset()
				if err := p.mounts("v", want); err != nil {
					t.Errorf("the mount after that: %v", err)
				}
				if got := s.Stats(app).Fetches; got != 0 {
					t.Errorf("the mount after that fetched %d times", got)
				}
				if next == "a new commit" { // or there was no fetch to sweep
					left(t, p)
				}
				p.stop()
			}
		})
	}
}

// TestLostLayers removes what workspaces stand on.
func TestLostLayers(t *testing.T) {
	t.Parallel()
	s, p := serve(t), start(t)
	if err := p.works("v", s.head, "repo="+s.url); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, pattern string }{
		{"tree removed", "data/clones/v/*/trees/*"}, {"git layer removed", "data/clones/v/*/refs/*"},
	} {
		remove(t, p.one(c.pattern))
		err := p.mounts("v", s.head)
		words := ""
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			words = "mount: " + err.Error()
		}
		told("disk: "+c.name, words)
	}
}

// TestDiskFull clones into a filesystem that is too small, and into it once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := startIn(t, smallDisk(t, 24<<20))
	if err := p.works("small", s.head, "repo="+s.url); err != nil {
		t.Fatal(err)
	}
	big := serve(t)
	content := noise(1 << 20)
	var changes []gitserver.Change
	for i := range 20 {
		changes = append(changes, gitserver.Change{Path: fmt.Sprint("noise", i), Content: fmt.Sprint(i) + content[i:]})
	}
	// Each its own megabyte: what compresses would fit.
	for i := range changes {
		changes[i].Content = noise(1 << 20)
	}
	if _, err := gitserver.Commit(big.Path(app), "main", changes...); err != nil {
		t.Fatal(err)
	}
	err := p.works("v", "", "repo="+big.url)
	if err := has(err, "out of disk", "free space"); err != nil {
		t.Error(err)
	}
	told("disk: full", strings.TrimPrefix(fmt.Sprint("mount: ", err), "mount: <nil>"))
	// What was there works, and the failed clone left nothing that takes room.
	if err := p.mounts("small", s.head); err != nil {
		t.Errorf("the other clone: %v", err)
	}
	left(t, p)
	s.commit(t, "main")
	if err := p.mounts("small", ""); err != nil {
		t.Errorf("the other clone, after a push: %v", err)
	}
}
