package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBind(t *testing.T) {
	s := newSpec(t)
	mustMount(t, s)
	cache := filepath.Join(filepath.Dir(s.Upper), "cache")
	mkdir(t, cache)
	mkdir(t, filepath.Join(s.Target, "a", "b"))
	if err := Bind(cache, s.Target, "a/b", false); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.Target, "a", "b", "f"), "x")
	if got := read(t, filepath.Join(cache, "f")); got != "x" {
		t.Errorf("the cache has %q", got)
	}
	m := info(t, filepath.Join(s.Target, "a", "b"))
	if !hasOption(m.Options, "nodev") || !hasOption(m.Options, "nosuid") {
		t.Errorf("options %q", m.Options)
	}
	if err := Bind(cache, s.Target, "a/b", false); !errors.Is(err, unix.EXDEV) {
		t.Errorf("a second bind: %v", err)
	}
	// Detach takes the bind along.
	mustDetach(t, s.Target)
	if points, err := Mounts(s.Target); err != nil || len(points) != 0 {
		t.Errorf("left: %v, %v", points, err)
	}
	if got := read(t, filepath.Join(cache, "f")); got != "x" {
		t.Errorf("the cache has %q", got)
	}
}

func TestBindReadOnly(t *testing.T) {
	s := newSpec(t)
	mustMount(t, s)
	cache := filepath.Join(filepath.Dir(s.Upper), "cache")
	mkdir(t, cache)
	write(t, filepath.Join(cache, "f"), "x")
	at := filepath.Join(s.Target, "a")
	mkdir(t, at)
	if err := Bind(cache, s.Target, "a", true); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(at, "f")); got != "x" {
		t.Errorf("reads %q", got)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(at, "f"), nil, 0o600), os.Mkdir(filepath.Join(at, "d"), 0o700), os.Remove(filepath.Join(at, "f")),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("a write: %v", err)
		}
	}
	write(t, filepath.Join(cache, "f"), "y") // others write on
	if got := read(t, filepath.Join(at, "f")); got != "y" {
		t.Errorf("reads %q", got)
	}
	if m := info(t, at); !hasOption(m.Options, "ro") || !hasOption(m.Options, "nodev") || !hasOption(m.Options, "nosuid") {
		t.Errorf("options %q", m.Options)
	}
}

func TestBindRefuses(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, tree, outside string) (rel string)
		want    error
	}{
		{"link", func(t *testing.T, tree, outside string) string {
			symlink(t, outside, filepath.Join(tree, "cache"))
			return "cache"
		}, unix.ENOTDIR},
		{"relative link", func(t *testing.T, tree, outside string) string {
			symlink(t, "dir", filepath.Join(tree, "cache"))
			return "cache"
		}, unix.ENOTDIR},
		{"link on the way", func(t *testing.T, tree, outside string) string {
			mkdir(t, filepath.Join(outside, "hdcache"))
			symlink(t, outside, filepath.Join(tree, ".git"))
			return ".git/hdcache"
		}, unix.ELOOP},
		{"mount on the way", func(t *testing.T, tree, outside string) string {
			mkdir(t, filepath.Join(outside, "hdcache"))
			if err := Bind(outside, tree, "dir", false); err != nil {
				t.Fatal(err)
			}
			return "dir/hdcache"
		}, unix.EXDEV},
		{"file", func(t *testing.T, tree, outside string) string { return "file" }, unix.ENOTDIR},
		{"missing", func(t *testing.T, tree, outside string) string { return "missing" }, unix.ENOENT},
		{"fifo", func(t *testing.T, tree, outside string) string {
			if err := unix.Mkfifo(filepath.Join(tree, "fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			return "fifo"
		}, unix.ENOTDIR},
		{"parent", func(t *testing.T, tree, outside string) string { return "../upper" }, unix.EINVAL},
		{"unclean", func(t *testing.T, tree, outside string) string { return "dir/../dir" }, unix.EINVAL},
		{"the root", func(t *testing.T, tree, outside string) string { return "." }, unix.EINVAL},
		{"empty", func(t *testing.T, tree, outside string) string { return "" }, unix.EINVAL},
		{"absolute", func(t *testing.T, tree, outside string) string { return outside }, unix.EINVAL},
		{"not mounted", func(t *testing.T, tree, outside string) string {
			mustDetach(t, tree)
			mkdir(t, filepath.Join(tree, "cache"))
			return "cache"
		}, ErrNotMounted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSpec(t)
			mustMount(t, s)
			outside := filepath.Join(filepath.Dir(s.Upper), "outside")
			cache := filepath.Join(filepath.Dir(s.Upper), "cache")
			mkdir(t, outside, cache)
			rel := tt.prepare(t, s.Target, outside)
			before, err := Mounts(filepath.Dir(s.Upper))
			if err != nil {
				t.Fatal(err)
			}
			if err := Bind(cache, s.Target, rel, false); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			after, err := Mounts(filepath.Dir(s.Upper))
			if err != nil {
				t.Fatal(err)
			}
			if len(after) != len(before) {
				t.Errorf("mounts before %v, after %v", before, after)
			}
		})
	}
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}
