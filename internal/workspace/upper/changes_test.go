package upper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
)

// TestChangedDeep: a deep upper costs little garbage and no memory for each level. Not
// parallel: it counts the allocations of the process.
func TestChangedDeep(t *testing.T) {
	const levels = 4000
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	v := &changeFinder{found: func() {}}
	name := strings.Repeat("d", 255)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range levels {
		if !v.Visit(disk.Entry{Dir: int(dir.Fd()), Name: name, Type: unix.DT_DIR, Depth: i + 1}) {
			t.Fatalf("stops at level %d", i+1)
		}
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(levels*16<<10); !testing.Short() && got > most {
		t.Errorf("%d bytes for %d levels, want at most %d", got, levels, most)
	}
	if len(v.names) > maxKnown {
		t.Errorf("%d names are kept", len(v.names))
	}
}

// TestChangedOpaque: an opaque directory is a change if it hides an entry of a layer, or
// if finding out would cost too much.
func TestChangedOpaque(t *testing.T) {
	t.Parallel()
	lower, dir := testdir.New(t, "upper"), testdir.New(t, "upper")
	deep := strings.Repeat("d/", maxKnown)
	for _, name := range []string{"old", "new", deep + "e"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(lower, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		opaque string
		looks  int
		want   bool
	}{
		{"new", 0, false},
		{"old", 0, true},
		{deep, 0, false},
		{deep + "e", 0, true},
		{"new", maxLooks, true},
	} {
		path := filepath.Join(dir, tt.opaque)
		if err := unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
		v := &changeFinder{found: func() {}, lower: []string{lower}, looks: tt.looks}
		if err := disk.Walk(t.Context(), dir, v, nil); err != nil || v.changed != tt.want {
			t.Errorf("%s after %d looks: changed is %v, want %v; %v", tt.opaque, tt.looks, v.changed, tt.want, err)
		}
		if err := unix.Removexattr(path, "trusted.overlay.opaque"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := overlay.Mark(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Changed(ctx, dir, meta.Workspace{}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestChangedWarm: a directory at a warm path is no change, nor is its removal, alone or with a parent that the tree does not
// have. All else is one.
func TestChangedWarm(t *testing.T) {
	t.Parallel()
	lower := testdir.New(t, "upper")
	if err := os.Mkdir(filepath.Join(lower, "web"), 0o755); err != nil {
		t.Fatal(err)
	}
	mkdir := func(path string) error { return os.MkdirAll(path, 0o755) }
	file := func(path string) error { return os.WriteFile(path, []byte("x"), 0o644) }
	whiteout := func(path string) error { return unix.Mknod(path, unix.S_IFCHR, 0) }
	for _, tt := range []struct {
		path string
		make func(path string) error
		want bool
	}{
		{"nm/x", mkdir, false},
		{"nm/x", file, false},
		{"nm", whiteout, false},
		{"nm", file, true},
		{"nm", func(path string) error { return os.Symlink("x", path) }, true},
		{"nm", func(path string) error { return unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(1, 3))) }, true},
		{"nmx", whiteout, true},
		{"web/dist/x", file, false},
		{"web/dist", whiteout, false},
		{"web/x", file, true},
		{"web", whiteout, true},
		{"gen", whiteout, false},
		{"gen/a", whiteout, false},
		{"gen/a/b/x", file, false},
		{"gen/a/x", file, true},
	} {
		dir := testdir.New(t, "upper")
		if err := errors.Join(overlay.Mark(dir), os.MkdirAll(filepath.Join(dir, filepath.Dir(tt.path)), 0o755), tt.make(filepath.Join(dir, tt.path))); err != nil {
			t.Fatal(err)
		}
		got, err := Changed(t.Context(), dir, meta.Workspace{}, []string{lower}, []string{"nm", "web/dist", "gen/a/b"})
		if err != nil || got != tt.want {
			t.Errorf("%s: changed is %v, want %v; %v", tt.path, got, tt.want, err)
		}
	}
}

// TestChangedReading: what git writes when it only reads, or fetches nothing new, is no change.
func TestChangedReading(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		".git/index": false, ".git/FETCH_HEAD": false, ".git/modules/a/b/FETCH_HEAD": false, ".git/modules/a/index": false,
		"FETCH_HEAD": true, ".git/x/FETCH_HEAD": true, ".git/refs/remotes/origin/main": true,
	} {
		dir := testdir.New(t, "upper")
		if err := errors.Join(overlay.Mark(dir), os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755), os.WriteFile(filepath.Join(dir, path), []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if got, err := Changed(t.Context(), dir, meta.Workspace{}, nil, nil); err != nil || got != want {
			t.Errorf("%s: changed is %v, want %v; %v", path, got, want, err)
		}
	}
}

// TestChangedBack: a copy of a file or a link that is as in the topmost layer is no change, wherever it is.
func TestChangedBack(t *testing.T) {
	t.Parallel()
	top, bottom := testdir.New(t, "upper"), testdir.New(t, "upper")
	at := time.Unix(1_000_000_000, 5)
	write := func(dir, name, text string) error {
		path := filepath.Join(dir, name)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, at, at))
	}
	if err := errors.Join(write(top, ".git/HEAD", "1234"), write(top, ".git/config", "1234"), write(bottom, "dir/file", "1234"),
		write(bottom, ".git/HEAD", "12345"), os.Symlink("dir", filepath.Join(bottom, "link"))); err != nil {
		t.Fatal(err)
	}
	nothing := func(string) error { return nil }
	attribute := func(path, name string) error { return unix.Setxattr(path, name, []byte("y"), 0) }
	for _, tt := range []struct {
		name, path string
		change     func(path string) error
		rec        meta.Workspace
		want       bool
	}{
		{"a file", "dir/file", nothing, meta.Workspace{}, false},
		{"of git", ".git/HEAD", nothing, meta.Workspace{}, false},
		{"the configuration", ".git/config", nothing, meta.Workspace{}, false},
		{"another owner", "dir/file", func(path string) error { return os.Chown(path, 1, 0) }, meta.Workspace{}, true},
		{"another group", "dir/file", func(path string) error { return os.Chown(path, 0, 1) }, meta.Workspace{}, true},
		{"another mode", "dir/file", func(path string) error { return os.Chmod(path, 0o755) }, meta.Workspace{}, true},
		{"another time", "dir/file", func(path string) error { return os.Chtimes(path, at, at.Add(1)) }, meta.Workspace{}, true},
		{"another size", "dir/file", func(path string) error { return errors.Join(os.Truncate(path, 5), os.Chtimes(path, at, at)) }, meta.Workspace{}, true},
		{"data", "dir/file", func(path string) error { return unix.Removexattr(path, "trusted.overlay.metacopy") }, meta.Workspace{}, true},
		{"moved", "dir/file", func(path string) error { return attribute(path, "trusted.overlay.redirect") }, meta.Workspace{}, true},
		{"an attribute", "dir/file", func(path string) error { return attribute(path, "user.x") }, meta.Workspace{}, true},
		{"on a checkpoint", "dir/file", nothing, meta.Workspace{From: []string{"x"}}, true},
		{"new", "dir/new", nothing, meta.Workspace{}, true},
	} {
		dir := testdir.New(t, "upper")
		path := filepath.Join(dir, tt.path)
		if err := errors.Join(overlay.Mark(dir), write(dir, tt.path, "1234"), attribute(path, "trusted.overlay.metacopy"), tt.change(path)); err != nil {
			t.Fatal(err)
		}
		if got, err := Changed(t.Context(), dir, tt.rec, []string{top, bottom}, nil); err != nil || got != tt.want {
			t.Errorf("%s: changed is %v, want %v; %v", tt.name, got, tt.want, err)
		}
	}
	for target, want := range map[string]bool{"dir": false, "bin": true} {
		dir := testdir.New(t, "upper")
		info, err := os.Lstat(filepath.Join(bottom, "link"))
		if err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "link")
		ts := unix.NsecToTimespec(info.ModTime().UnixNano())
		if err := errors.Join(overlay.Mark(dir), os.Symlink(target, link), unix.UtimesNanoAt(unix.AT_FDCWD, link, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)); err != nil {
			t.Fatal(err)
		}
		if got, err := Changed(t.Context(), dir, meta.Workspace{}, []string{top, bottom}, nil); err != nil || got != want {
			t.Errorf("a link to %s: changed is %v, want %v; %v", target, got, want, err)
		}
	}
}

// TestChangedConfig: the .git/config that a workspace with auth=container begins with is no change,
// and any other is one.
func TestChangedConfig(t *testing.T) {
	t.Parallel()
	gitLayer := t.TempDir()
	if err := os.Mkdir(filepath.Join(gitLayer, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	const shared = "[core]\n\tbare = false\n"
	if err := os.WriteFile(filepath.Join(gitLayer, ".git/config"), []byte(shared), 0o644); err != nil {
		t.Fatal(err)
	}
	rec := meta.Workspace{Options: map[string]string{"repo": "https://h/o/r", "cache": "off", "auth": "container"}}
	for _, tt := range []struct {
		name   string
		change func(config string) error
		rec    meta.Workspace
		want   bool
	}{
		{"unchanged", func(string) error { return nil }, rec, false},
		{"restored without the option", func(string) error { return nil }, meta.Workspace{}, true},
		{"longer", func(config string) error { return os.WriteFile(config, []byte(shared+"[a]\n\tb = c\n"), 0o644) }, rec, true},
		{"empty", func(config string) error { return os.Truncate(config, 0) }, rec, true},
		{"a link", func(config string) error {
			return errors.Join(os.Remove(config), os.Symlink(filepath.Join(gitLayer, ".git/config"), config))
		}, rec, true},
		{"a FIFO", func(config string) error { return errors.Join(os.Remove(config), unix.Mkfifo(config, 0o644)) }, rec, true},
	} {
		dir := t.TempDir()
		if err := Make(dir, rec, gitLayer, false); err != nil {
			t.Fatal(err)
		}
		if err := tt.change(filepath.Join(dir, ".git/config")); err != nil {
			t.Fatal(err)
		}
		if changed, err := Changed(t.Context(), dir, tt.rec, []string{gitLayer}, nil); err != nil || changed != tt.want {
			t.Errorf("%s: changed is %v, want %v; %v", tt.name, changed, tt.want, err)
		}
	}
}

// TestCacheLink: the link to the cache is made if the volume wants one and the repository leaves room for it. Only that
// link is no change.
func TestCacheLink(t *testing.T) {
	t.Parallel()
	gitLayer := t.TempDir()
	for _, tt := range []struct {
		name    string
		options map[string]string
		tracked bool
		want    bool
	}{
		{"by default", map[string]string{"cache": "shared"}, false, false},
		{"wanted", map[string]string{"cache": "shared", "cache_link": "true"}, false, true},
		{"not wanted", map[string]string{"cache": "shared", "cache_link": "false"}, false, false},
		{"without a cache", map[string]string{"cache": "off", "cache_link": "true"}, false, false},
		{"tracked", map[string]string{"cache": "shared", "cache_link": "true"}, true, false},
	} {
		dir := testdir.New(t, "upper")
		rec := meta.Workspace{Options: tt.options}
		if err := Make(dir, rec, gitLayer, tt.tracked); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, ".hdcache")
		target, err := os.Readlink(link)
		if got := err == nil; got != tt.want || got && target != ".git/hdcache" {
			t.Errorf("%s: link %q, %v", tt.name, target, err)
		}
		changes := func(what string, want bool) {
			t.Helper()
			if got, err := Changed(t.Context(), dir, rec, []string{gitLayer}, nil); err != nil || got != want {
				t.Errorf("%s: %s: changed is %v, want %v; %v", tt.name, what, got, want, err)
			}
		}
		changes("at first", false)
		for what, make := range map[string]func() error{
			"a file":       func() error { return os.WriteFile(link, []byte("mine"), 0o644) },
			"another link": func() error { return os.Symlink(".git/hdcache/x", link) },
			"a short link": func() error { return os.Symlink(".git", link) },
		} {
			if err := errors.Join(os.RemoveAll(link), make()); err != nil {
				t.Fatal(err)
			}
			changes(what, true)
		}
	}
}
