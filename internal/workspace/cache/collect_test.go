package cache

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

const uid, gid = 1234, 2345

// now is the time at which the tests publish. What they make before is older.
var now = time.Now().Add(time.Hour).Truncate(time.Second)

// bench has the cache in an upper and those of published layers.
type bench struct {
	testing.TB
	dir, from string
	layers    []string // topmost first
	copy      bool     // the upper may be in use
	room      int64
	settled   time.Time
	shown     func(rel string) (*os.File, error)
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{TB: t, dir: t.TempDir(), room: 1 << 30}
	b.renew()
	return b
}

// renew begins with an empty upper.
func (b *bench) renew() {
	b.from = b.mkdir("from")
}

func (b *bench) mkdir(name string) string {
	b.Helper()
	dir, err := os.MkdirTemp(b.dir, name+"-*")
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

// date sets the times of files.
func (b *bench) date(at time.Time, names ...string) {
	b.Helper()
	for _, name := range names {
		if err := os.Chtimes(filepath.Join(b.from, name), at, at); err != nil {
			b.Fatal(err)
		}
	}
}

// write makes files, from alternating paths and contents. A path that ends with / is a directory.
func (b *bench) write(pairs ...string) {
	b.Helper()
	for i := 0; i < len(pairs); i += 2 {
		b.put(filepath.Join(b.from, pairs[i]), pairs[i+1], strings.HasSuffix(pairs[i], "/"))
	}
}

func (b *bench) put(path, text string, dir bool) {
	b.Helper()
	top := filepath.Dir(path)
	if dir {
		top = path
	}
	if err := os.MkdirAll(top, 0o700); err != nil {
		b.Fatal(err)
	}
	if dir {
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// collect publishes the upper as a new layer at that time, and returns the result.
func (b *bench) collect(at time.Time) Result {
	b.Helper()
	from, err := upfile.OpenDir(b.from)
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()
	to := b.mkdir("layer")
	r, err := Collect(b.Context(), Job{
		From: from, Shown: b.shown, Published: b.layers, To: to, UID: uid, GID: gid, Move: !b.copy, Now: at, Room: b.room, Settled: b.settled,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.layers = append([]string{to}, b.layers...)
	return r
}

// files returns the files and links of a layer, with contents and targets.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if e.Type() == fs.ModeSymlink {
			to, err := os.Readlink(path)
			got[rel] = "-> " + to
			return err
		}
		data, err := os.ReadFile(path)
		got[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// clean checks what holds for all layers: owner, modes, no attributes, no other kinds.
func clean(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		st, err := upfile.Stat(unix.AT_FDCWD, path)
		if err != nil {
			return err
		}
		mode := st.Mode & 0o7777
		switch upfile.Kind(&st) {
		case unix.S_IFDIR:
			if mode != 0o755 {
				t.Errorf("%s has mode %o", path, mode)
			}
		case unix.S_IFREG:
			if mode != 0o755 && mode != 0o644 {
				t.Errorf("%s has mode %o", path, mode)
			}
		case unix.S_IFLNK:
		default:
			t.Errorf("%s has kind %o", path, upfile.Kind(&st))
		}
		if st.Uid != uid || st.Gid != gid {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		names, err := attributes(path)
		if names = slices.DeleteFunc(names, func(n string) bool { return n == "security.selinux" }); len(names) > 0 {
			t.Errorf("%s has attributes %q", path, names)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// want checks the files of the topmost layer, given as alternating paths and contents.
func (b *bench) want(r Result, pairs ...string) {
	b.Helper()
	want := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	if got := files(b, b.layers[0]); !maps.Equal(got, want) {
		b.Errorf("published\n%q, want\n%q; left out %q", got, want, r.Left)
	}
	if r.Files != len(want) {
		b.Errorf("Files is %d, want %d", r.Files, len(want))
	}
	clean(b, b.layers[0])
}

func TestCollect(t *testing.T) {
	t.Parallel()
	for _, copy := range []bool{false, true} {
		b := newBench(t)
		b.copy = copy
		b.write("npm/_cacache/content-v2/a/b", "1", "npm/_cacache/index-v5/x", "i", "npm/_logs/l", "l", "env", "mine", "CACHEDIR.TAG", "mine", "other/tool/f", "o", "go-build/ab/x-d", "c")
		wrote := now.Add(-time.Minute)
		b.date(wrote, "other/tool/f", "npm/_cacache/content-v2/a/b")
		b.date(now.Add(time.Hour), "npm/_cacache/index-v5/x")
		r := b.collect(now)
		b.want(r, "npm/_cacache/content-v2/a/b", "1", "npm/_cacache/index-v5/x", "i", "other/tool/f", "o", "go-build/ab/x-d", "c")
		if r.Size.Inodes != 14 || r.Size.Bytes == 0 || r.Over {
			t.Errorf("%+v", r)
		}
		// Only an index has the time when it was written, and none of the future.
		for name, want := range map[string]time.Time{"other/tool/f": wrote, "npm/_cacache/content-v2/a/b": now, "npm/_cacache/index-v5/x": now} {
			info, err := os.Stat(filepath.Join(b.layers[0], name))
			if err != nil || !info.ModTime().Equal(want) {
				t.Errorf("%s: %v, %v", name, info.ModTime(), err)
			}
		}
		// Not new, though younger.
		b.renew()
		b.write("npm/_cacache/content-v2/a/b", "22", "npm/_cacache/index-v5/x", "i", "other/tool/f", "old", "go-build/ab/x-d", "C")
		b.date(now.Add(time.Hour), "npm/_cacache/content-v2/a/b", "npm/_cacache/index-v5/x", "go-build/ab/x-d")
		b.date(wrote.Add(-time.Minute), "other/tool/f")
		b.want(b.collect(now.Add(2 * time.Hour)))
		// New: a later index, also one that was written before the other was published, and what a crash had cut off.
		b.renew()
		b.write("npm/_cacache/index-v5/x", "j", "other/tool/f", "new", "go-build/ab/x-d", "cut")
		b.date(now.Add(time.Hour), "npm/_cacache/index-v5/x")
		b.date(wrote.Add(time.Second), "other/tool/f")
		b.want(b.collect(now.Add(2*time.Hour)), "npm/_cacache/index-v5/x", "j", "other/tool/f", "new", "go-build/ab/x-d", "cut")

		to := b.mkdir("union")
		size, err := Union(t.Context(), b.layers, to, uid, gid, "other/tool")
		if err != nil || size.Inodes == 0 {
			t.Fatal(size, err)
		}
		clean(t, to)
		want := map[string]string{"npm/_cacache/content-v2/a/b": "1", "npm/_cacache/index-v5/x": "j", "go-build/ab/x-d": "cut"}
		if got := files(t, to); !maps.Equal(got, want) {
			t.Errorf("merged %q, want %q", got, want)
		}
	}
}

func TestBase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "base")
	if err := Base(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	clean(t, dir)
	var got []string
	list, err := os.ReadDir(dir)
	for _, e := range list {
		got = append(got, e.Name())
	}
	want := slices.Sorted(slices.Values(append([]string{"env", "CACHEDIR.TAG"}, tools...)))
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, name := range tools {
		if !strings.Contains(string(Env), "$HDCACHE/"+name) {
			t.Errorf("env does not name %s", name)
		}
	}
}
