package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// ok fails the test at an error.
func (b *bench) ok(errs ...error) {
	b.Helper()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}

// at returns the path of a file of the upper.
func (b *bench) at(rel string) string { return filepath.Join(b.from, rel) }

const whole = "cargo/registry/src/index/whole-1/"

// each calls f for moves and for copies.
func each(t *testing.T, f func(b *bench)) {
	t.Helper()
	t.Parallel()
	for _, copy := range []bool{false, true} {
		t.Run(fmt.Sprintf("copy %v", copy), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.copy = copy
			f(b)
		})
	}
}

// TestHostileKinds has all that is no file, directory or link, alone and in units.
func TestHostileKinds(t *testing.T) {
	each(t, func(b *bench) {
		b.write(whole+".cargo-ok", "{}", "tool/ok", "1", "npm/_cacache/content-v2/", "")
		for i, dir := range []string{"tool/", "npm/_cacache/content-v2/", "cargo/registry/src/index/a-1/", "cargo/registry/src/index/b-1/", "cargo/registry/src/index/c-1/"} {
			b.write(dir+".cargo-ok", "{}")
			b.ok(unix.Mkfifo(b.at(dir+"fifo"), 0o666))
			if i != 3 {
				b.ok(unix.Mknod(b.at(dir+"socket"), unix.S_IFSOCK|0o666, 0))
			}
			b.ok(unix.Mknod(b.at(dir+"dev"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))), unix.Mknod(b.at(dir+"white"), unix.S_IFCHR, 0))
		}
		r := b.collect(now)
		b.want(r, whole+".cargo-ok", "{}", "tool/ok", "1", "tool/.cargo-ok", "{}", "npm/_cacache/content-v2/.cargo-ok", "{}")
		if len(r.Left) == 0 || len(r.Left) > maxLeft {
			b.Errorf("left out %q", r.Left)
		}
	})
}

// TestHostileLinks has links to directories and files outside in place of all that is expected: they are made again as
// they are, and nothing is read through them.
func TestHostileLinks(t *testing.T) {
	each(t, func(b *bench) {
		outside := b.mkdir("outside")
		b.put(filepath.Join(outside, ".cargo-ok"), "outside", false)
		b.put(filepath.Join(outside, originsName), "lib.jar>central=\n", false)
		b.write("cargo/registry/src/index/", "", "tool/", "", "maven/a/lib.jar", "j", "nuget/a/1/x", "x", "npm/_cacache/", "")
		b.ok(os.Symlink(outside, b.at("cargo/registry/src/index/a-1")), os.Symlink(outside, b.at("tool/dir")), os.Symlink("../../../..", b.at("tool/up")),
			os.Symlink(filepath.Join(outside, originsName), b.at("maven/a/"+originsName)), os.Symlink(outside, b.at("npm/_cacache/content-v2")),
			os.Symlink(outside, b.at("pip")), os.Symlink(filepath.Join(outside, ".cargo-ok"), b.at("nuget/a/1/.nupkg.metadata")))
		b.want(b.collect(now), "tool/dir", "-> "+outside, "tool/up", "-> ../../../..")
		if got := files(b, outside); len(got) != 2 {
			b.Errorf("outside: %q", got)
		}
		// A directory in a later upper where a link is published, and the reverse.
		b.renew()
		b.write("tool/dir/secret-less", "x", "tool/up", "file")
		b.want(b.collect(now.Add(time.Hour)))
		if got := files(b, outside); len(got) != 2 {
			b.Errorf("outside: %q", got)
		}
	})
}

// TestKindsNeverChange has each kind where another one is published.
func TestKindsNeverChange(t *testing.T) {
	each(t, func(b *bench) {
		make := func(kinds ...string) {
			b.renew()
			for i, kind := range kinds {
				for _, dir := range []string{"tool", "npm/_cacache/content-v2", "npm/_cacache/index-v5"} {
					rel := fmt.Sprintf("%s/%d", dir, i)
					switch kind {
					case "file":
						b.write(rel, "later and longer")
					case "dir":
						b.write(rel+"/in", "x")
					case "link":
						b.write(dir+"/", "")
						b.ok(os.Symlink("to", b.at(rel)))
					}
					b.ok(unix.UtimesNanoAt(unix.AT_FDCWD, b.at(rel), []unix.Timespec{{Sec: now.Unix() + 60}, {Sec: now.Unix() + 60}}, unix.AT_SYMLINK_NOFOLLOW))
				}
			}
		}
		make("file", "file", "dir", "dir", "link", "link")
		if r := b.collect(now); r.Files != 18 {
			b.Errorf("%+v", r)
		}
		make("dir", "link", "file", "link", "file", "dir")
		b.want(b.collect(now.Add(time.Hour)))
	})
}

// TestHostileNames has names that are no text.
func TestHostileNames(t *testing.T) {
	each(t, func(b *bench) {
		var want []string
		for _, name := range []string{"a\nb", "\xff\xfe", "-rf", "%s%n", "\x1b[2J", strings.Repeat("x", 255), " ", "*", "**", "[", "\\"} {
			rel := "npm/_cacache/content-v2/" + name
			b.write(rel, "1", "cargo/registry/src/i/"+name+"/half\n\x1b[2J", "half")
			want = append(want, rel, "1")
		}
		r := b.collect(now)
		b.want(r, want...)
		for _, text := range r.Left {
			if strings.ContainsAny(text, "\n\x1b") || !utf8.ValidString(text) {
				b.Errorf("%q is not escaped", text)
			}
		}
	})
}

// TestHostileAttributes has the marks of overlayfs, and modes that give rights.
func TestHostileAttributes(t *testing.T) {
	each(t, func(b *bench) {
		c := "npm/_cacache/content-v2/"
		b.write(c+"plain", "1", c+"meta", "1", c+"other", "1", c+"self", "1", c+"opaque/x", "1", c+"moved/x", "1", c+"origin/x", "1", c+"suid", "1",
			"uv/archive-v0/a/f", "1", "uv/archive-v0/b/f", "1", "uv/archive-v0/c/d/f", "1", "uv/archive-v0/opaque/f", "1")
		set := func(rel, name, value string) { b.ok(unix.Lsetxattr(b.at(rel), name, []byte(value), 0)) }
		set(c+"plain", "user.x", strings.Repeat("x", 500))
		set(c+"plain", "trusted.overlay.origin", "x")
		set(c+"plain", "trusted.x", "x")
		for i := range 15 {
			set(c+"plain", fmt.Sprintf("trusted.long-%d-%s", i, strings.Repeat("n", 40)), "")
		}
		set(c+"meta", upfile.MetacopyAttr, "")
		set(c+"other", upfile.MetacopyAttr, "")
		set(c+"other", upfile.RedirectAttr, "/.git/hdcache/"+c+"from")
		set(c+"self", upfile.MetacopyAttr, "")
		set(c+"self", upfile.RedirectAttr, "/.git/hdcache/"+c+"self")
		set(c+"opaque", upfile.OpaqueAttr, "y")
		set(c+"moved", upfile.RedirectAttr, "/etc")
		set(c+"origin", originAttr, "x")
		set("uv/archive-v0/a/f", upfile.MetacopyAttr, "")
		set("uv/archive-v0/b", originAttr, "x")
		set("uv/archive-v0/c/d", upfile.RedirectAttr, "/etc")
		set("uv/archive-v0/opaque", upfile.OpaqueAttr, "y")
		set("uv/archive-v0/opaque", originAttr, "x")
		b.ok(unix.Chmod(b.at(c+"suid"), 0o6711))
		var asked []string
		b.shown = func(rel string) (*os.File, error) {
			asked = append(asked, rel)
			path := filepath.Join(b.dir, "shown")
			b.ok(os.WriteFile(path, []byte("2"), 0o600))
			return os.Open(path)
		}
		b.want(b.collect(now), c+"plain", "1", c+"other", "2", c+"opaque/x", "1", c+"origin/x", "1", c+"suid", "1", "uv/archive-v0/opaque/f", "1")
		if len(asked) != 1 || asked[0] != c+"other" {
			b.Errorf("asked for %q", asked)
		}
		if info, err := os.Stat(filepath.Join(b.layers[0], c+"suid")); err != nil || info.Mode() != 0o755 {
			b.Errorf("%v, %v", info.Mode(), err)
		}
		// What is shown has to be what was described.
		for _, text := range []string{"", "22"} {
			b.renew()
			b.write(c+"changed", "1")
			set(c+"changed", upfile.MetacopyAttr, "")
			set(c+"changed", upfile.RedirectAttr, "/x")
			b.shown = func(string) (*os.File, error) {
				path := filepath.Join(b.dir, "shown")
				b.ok(os.WriteFile(path, []byte(text), 0o600))
				return os.Open(path)
			}
			b.want(b.collect(now))
		}
	})
}

// TestHardLinks has files with names inside and outside of the cache.
func TestHardLinks(t *testing.T) {
	each(t, func(b *bench) {
		outside := filepath.Join(b.dir, "outside")
		b.put(outside, "1", false)
		b.write("npm/_cacache/content-v2/", "", "npm/_logs/", "", whole+".cargo-ok", "{}")
		names := []string{"npm/_cacache/content-v2/a", "npm/_cacache/content-v2/b", "npm/_logs/c", whole + "d"}
		for _, rel := range names {
			b.ok(os.Link(outside, b.at(rel)))
		}
		b.want(b.collect(now), names[0], "1", names[1], "1", names[3], "1", whole+".cargo-ok", "{}")
		st, err := upfile.Stat(unix.AT_FDCWD, outside)
		b.ok(err)
		if want := uint64(1); b.copy && st.Nlink != 5 || !b.copy && st.Nlink != want {
			b.Errorf("outside has %d names", st.Nlink)
		}
		if st.Uid != 0 || st.Mode&0o777 != 0o600 {
			b.Errorf("outside belongs to %d, mode %o", st.Uid, st.Mode)
		}
	})
}

// TestTimesOfHardLinks: each name of a file has the time that others find there, whatever its other names are. An index with one
// of the future would stay for ever.
func TestTimesOfHardLinks(t *testing.T) {
	each(t, func(b *bench) {
		written := now.Add(-time.Minute)
		want := map[string]time.Time{"go-build/ab/x-d": farFuture, "npm/_cacache/content-v2/x": now, "npm/_cacache/index-v5/x": written, "tool/x": written}
		outside := filepath.Join(b.dir, "outside")
		b.put(outside, "1", false)
		b.ok(os.Chtimes(outside, written, written))
		for rel := range want {
			b.write(filepath.Dir(rel)+"/", "")
			b.ok(os.Link(outside, b.at(rel)))
		}
		b.collect(now)
		for rel, want := range want {
			if info, err := os.Stat(filepath.Join(b.layers[0], rel)); err != nil || !info.ModTime().Equal(want) {
				b.Errorf("%s has the time %v, %v, want %v", rel, info.ModTime(), err, want)
			}
		}
	})
}

// TestHardLinkThatChanges: a name of a file that was copied, and that has another content since, is not a name of the copy.
func TestHardLinkThatChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.copy = true
	const dir = "npm/_cacache/content-v2/"
	b.write(dir+"linked0", "1")
	for i := 1; i < 10; i++ {
		b.write(fmt.Sprint(dir, "other", i), "1")
		b.ok(os.Link(b.at(dir+"linked0"), b.at(fmt.Sprint(dir, "linked", i))))
	}
	names := b.order(dir)
	linked := func(name string) bool { return strings.HasPrefix(name, "linked") }
	at := slices.IndexFunc(names, linked)
	at += slices.IndexFunc(names[at:], func(name string) bool { return !linked(name) })
	// As a file that gets the inode of one that was removed.
	b.when(dir+names[at], func() error {
		return errors.Join(os.WriteFile(b.at(dir+"linked0"), []byte("2"), 0o600), os.Chtimes(b.at(dir+"linked0"), now, now))
	})
	var want []string
	for i, name := range names {
		text := "1"
		if linked(name) && i > at {
			text = "2"
		}
		want = append(want, dir+name, text)
	}
	b.want(b.collect(now), want...)
}

// TestLimits reaches each limit. What was collected before is whole.
func TestLimits(t *testing.T) {
	each(t, func(b *bench) {
		// On a disk in memory, files may have holes of 8 EiB.
		b.dir = b.memory()
		b.renew()
		deep := strings.Repeat("d/", 300)
		b.write("tool/"+deep+"f", "1", "tool/f", "1", "tool/huge", "", "nuget/a/1/.nupkg.metadata", "{}", "nuget/a/1/huge", "", "nuget/b/1/.nupkg.metadata", "{}",
			"nuget/b/1/"+deep+"f", "1")
		long := "tool/"
		for range 14 {
			long += strings.Repeat("l", 240) + "/"
		}
		b.ok(os.MkdirAll(b.at(long), 0o755))
		b.ok(os.Truncate(b.at("tool/huge"), 1<<63-1-4096), os.Truncate(b.at("nuget/a/1/huge"), 1<<62))
		r := b.collect(now)
		b.want(r, "tool/f", "1")
		if !r.Over {
			b.Error("Over is not set")
		}

		// A sparse file that is small enough takes no room.
		b.renew()
		b.write("npm/_cacache/content-v2/sparse", "")
		b.ok(os.Truncate(b.at("npm/_cacache/content-v2/sparse"), 1<<35), os.Link(b.at("npm/_cacache/content-v2/sparse"), b.at("npm/_cacache/content-v2/again")))
		b.room = 0
		if r := b.collect(now); r.Files != 2 || r.Over || r.Size.Bytes > 1<<16 {
			b.Errorf("%+v", r)
		}

		b.renew()
		b.room = 1 << 20
		b.write("npm/_cacache/content-v2/0", "0", "nuget/a/1/.nupkg.metadata", "{}", "nuget/a/1/x", "0")
		for i := range 4 {
			b.write(fmt.Sprintf("npm/_cacache/content-v2/big%d", i), strings.Repeat("x", 400<<10))
			b.ok(os.Link(b.at(fmt.Sprintf("npm/_cacache/content-v2/big%d", i)), filepath.Join(b.dir, fmt.Sprintf("other%d", i))))
		}
		if r := b.collect(now); !r.Over || r.Files < 3 || r.Files > 5 || r.Size.Bytes > 1<<20 {
			b.Errorf("%+v", r)
		}
		clean(b, b.layers[0])
	})
}

// memory returns a directory in memory.
func (b *bench) memory() string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "helmdeck-*")
	b.ok(err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestEndings ends Collect early: by the number of entries, by a deadline, and by a shutdown.
func TestEndings(t *testing.T) {
	each(t, func(b *bench) {
		for i := range 100 {
			b.write(fmt.Sprintf("npm/_cacache/content-v2/%d", i), "1", fmt.Sprintf("nuget/a/%d/.nupkg.metadata", i), "{}", fmt.Sprintf("nuget/a/%d/x", i), "x")
		}
		from, err := upfile.OpenDir(b.from)
		b.ok(err)
		defer from.Close()
		job := func() Job {
			return Job{From: from, To: b.mkdir("layer"), UID: uid, GID: gid, Now: now, Room: 1 << 20}
		}
		j := job()
		r, err := collect(b.Context(), j, 150)
		if err != nil || !r.Over || r.Files == 0 || r.Files >= 300 || len(files(b, j.To)) != r.Files {
			b.Errorf("%+v, %v", r, err)
		}
		for name := range files(b, j.To) {
			if other := strings.TrimSuffix(name, "x") + ".nupkg.metadata"; strings.HasSuffix(name, "/x") && files(b, j.To)[other] == "" {
				b.Errorf("%s is there without its unit", name)
			}
		}
		clean(b, j.To)
		late, stop := context.WithDeadline(b.Context(), time.Unix(0, 0))
		defer stop()
		if r, err := Collect(late, job()); err != nil || !r.Over || r.Files != 0 {
			b.Errorf("%+v, %v", r, err)
		}
		ended, stop := context.WithCancel(b.Context())
		stop()
		if _, err := Collect(ended, job()); !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	})
}

// TestManyNames: many names of one large file take its room once.
func TestManyNames(t *testing.T) {
	b := newBench(t)
	first := "npm/_cacache/content-v2/large"
	b.write(first, strings.Repeat("x", 1<<20))
	const names = 200
	for i := range names {
		b.ok(os.Link(b.at(first), b.at(fmt.Sprintf("npm/_cacache/content-v2/%d", i))))
	}
	if r := b.collect(now); r.Files != names+1 || r.Size.Bytes > 3<<20 {
		t.Errorf("%+v", r)
	}
}

func TestUnit(t *testing.T) {
	for rel, want := range map[string]string{
		"npm/_cacache/content-v2/sha512": "", "go-mod/example.com/m@v1.0.0": "", "go-mod/cache/download": "",
		"go-mod/example.com/m@v1.0.0/a/b.go": "go-mod/example.com/m@v1.0.0", "uv/archive-v0/x/y": "uv/archive-v0/x", "mine/x": "",
	} {
		if got := Unit(rel); got != want {
			t.Errorf("%s is in %q, want %q", rel, got, want)
		}
	}
}

// TestNests has directories of tools in those of others, units in units, and names that differ from known ones in their case: each
// is what its whole path says.
func TestNests(t *testing.T) {
	each(t, func(b *bench) {
		const mark = "/.cargo-ok"
		b.write(
			"npm/go-mod/m@v1.0.0/go.mod", "m", "npm/_cacache/content-v2/cargo/credentials.toml", "secret", "npm/_cacache/content-v2/go-mod/cache/lock", "",
			"npm/_cacache/content-v2/maven/a.jar", "1", "NPM/_cacache/content-v2/x", "1", "Cargo/credentials.toml", "secret", "CARGO/config.toml", "secret",
			"Docker/config.json", "secret", "AWS/credentials", "secret", "Home/.ssh/id", "secret",
			"go-mod/a@v1.0.0/b@v1.0.0/go.mod", "m", "go-mod/a@v1.0.0/cache/download/c/@v/v1.0.0.partial", "", "go-mod/cache/d@v1.0.0/go.mod", "m",
			"go-mod/cache/download/e@v1.0.0/go.mod", "m", "go-mod/GO-MOD/f@v1.0.0/go.mod", "m",
			"cargo/registry/src/i/half-1/src/i/whole-1"+mark, "{}", "cargo/registry/src/i/whole-1/registry/src/i/half-1/lib.rs", "1", "cargo/registry/src/i/whole-1"+mark, "{}",
			"cargo/registry/src/i/Whole-1"+mark, "", "cargo/registry/src/i/case-1/.Cargo-Ok", "{}", "cargo/registry/SRC/i/whole-1"+mark, "{}",
			"nuget/nuget/1/.nupkg.metadata", "{}", "nuget/.hidden/1/.nupkg.metadata", "{}", "tool/nuget/a/1/x", "1", "tool/.cargo-ok/x", "1",
		)
		b.want(b.collect(now),
			"npm/_cacache/content-v2/maven/a.jar", "1", "NPM/_cacache/content-v2/x", "1", "go-mod/a@v1.0.0/b@v1.0.0/go.mod", "m",
			"go-mod/a@v1.0.0/cache/download/c/@v/v1.0.0.partial", "", "go-mod/GO-MOD/f@v1.0.0/go.mod", "m",
			"cargo/registry/src/i/whole-1/registry/src/i/half-1/lib.rs", "1", "cargo/registry/src/i/whole-1"+mark, "{}",
			"nuget/nuget/1/.nupkg.metadata", "{}", "tool/nuget/a/1/x", "1", "tool/.cargo-ok/x", "1",
		)
	})
}

// TestManyDirectories: empty directories are published only in units, and all take less than the limits.
func TestManyDirectories(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.dir = b.memory()
	b.renew()
	n := 100_000
	if testing.Short() {
		n = 1000
	}
	b.write("uv/archive-v0/x/f", "1", "tool/f", "1", "npm/_cacache/content-v2/f", "1", "nuget/a/", "")
	for i := range n {
		for _, dir := range []string{"uv/archive-v0/x", "tool", "npm/_cacache/content-v2", "nuget/a"} {
			b.ok(os.Mkdir(b.at(fmt.Sprintf("%s/%d", dir, i)), 0o700))
		}
	}
	r := b.collect(now)
	b.want(r, "uv/archive-v0/x/f", "1", "tool/f", "1", "npm/_cacache/content-v2/f", "1")
	if most := int64(n + 20); r.Over || r.Size.Inodes < int64(n) || r.Size.Inodes > most || len(r.Left) > maxLeft {
		t.Errorf("%+v, want at most %d inodes", r, most)
	}
}
