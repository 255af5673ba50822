package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/tests/wait"
)

// changed returns when a file of the upper was last changed.
func (b *bench) changed(rel string) time.Time {
	b.Helper()
	st, err := upfile.Stat(unix.AT_FDCWD, b.at(rel))
	b.ok(err)
	return time.Unix(st.Ctim.Unix())
}

// TestTreeThatIsWritten: nothing is published of the directory of another tool in which a program may still write, and all
// of it later. The rules of known tools say what is whole.
func TestTreeThatIsWritten(t *testing.T) {
	t.Parallel()
	content := "npm/_cacache/content-v2/f"
	for what, last := range map[string]string{"a file": "tool/pkg/b", "a directory": "tool/pkg", "one that is not published": "tool/pkg/b.lock"} {
		b := newBench(t)
		b.copy = true
		b.write("tool/pkg/a", "1", "other/x", "1")
		b.settled = b.changed("other/x")
		wait.For(t, "the clock of the files to go on", func() error {
			switch last {
			case "tool/pkg":
				b.ok(os.Chmod(b.at(last), 0o700))
			default:
				b.write(last, "2")
			}
			return wait.Check(b.changed(last).After(b.settled), "%v", b.settled)
		})
		b.write(content, "1")
		r := b.collect(now)
		b.want(r, "other/x", "1", content, "1")
		if left := strings.Join(r.Left, "; "); !strings.Contains(left, "tool: ") || !strings.Contains(left, errWriting.Error()) {
			t.Errorf("%s: left out %q", what, left)
		}
		b.settled = time.Now().Add(time.Hour)
		want := []string{"tool/pkg/a", "1"}
		if last == "tool/pkg/b" {
			want = append(want, last, "2")
		}
		b.want(b.collect(now.Add(time.Minute)), want...)
	}
}

// TestTreeThatChanges: a file of another tool that changes while it is read takes with it all that is new of that tool.
func TestTreeThatChanges(t *testing.T) {
	each(t, func(b *bench) {
		b.write("tool/pkg/a", "1", "tool/pkg/changing", "1", "tool/pkg/z", "1", "other/x", "1")
		b.ok(unix.Lsetxattr(b.at("tool/pkg/changing"), upfile.MetacopyAttr, nil, 0),
			unix.Lsetxattr(b.at("tool/pkg/changing"), upfile.RedirectAttr, []byte("/elsewhere"), 0))
		b.shown = func(string) (*os.File, error) {
			path := filepath.Join(b.dir, "shown")
			b.ok(os.WriteFile(path, []byte("22"), 0o600))
			return os.Open(path)
		}
		b.want(b.collect(now), "other/x", "1")
	})
}

// order returns the names of a directory of the upper, as they are read.
func (b *bench) order(rel string) []string {
	b.Helper()
	dir, err := os.Open(b.at(rel))
	b.ok(err)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	b.ok(err)
	return names
}

// when calls f when a file of the upper is copied, whose content is "1".
func (b *bench) when(rel string, f func() error) {
	b.Helper()
	b.ok(unix.Lsetxattr(b.at(rel), upfile.MetacopyAttr, nil, 0), unix.Lsetxattr(b.at(rel), upfile.RedirectAttr, []byte("/elsewhere"), 0))
	b.shown = func(string) (*os.File, error) {
		b.ok(f())
		path := filepath.Join(b.dir, "shown")
		b.ok(os.WriteFile(path, []byte("1"), 0o600))
		return os.Open(path)
	}
}

// TestNameThatGoes: a name of a directory may go before it is read, without an error. Of what is published as a whole or not at all
// nothing is published then, also if another directory takes the place of the one that is read.
func TestNameThatGoes(t *testing.T) {
	t.Parallel()
	for _, top := range []string{"uv/archive-v0/x", "tool"} {
		for what, change := range map[string]func(b *bench, last string) error{
			"removed": func(b *bench, last string) error { return os.Remove(last) },
			"moved":   func(b *bench, last string) error { return os.Rename(last, filepath.Join(b.mkdir("outside"), "x")) },
			"replaced": func(b *bench, last string) error {
				old := b.mkdir("outside")
				return errors.Join(os.Rename(b.at(top), filepath.Join(old, "x")), os.CopyFS(b.at(top), os.DirFS(filepath.Join(old, "x"))),
					os.Remove(filepath.Join(old, "x/d", filepath.Base(last))))
			},
		} {
			b := newBench(t)
			b.copy = true
			const content = "npm/_cacache/content-v2/f"
			b.write(content, "1")
			for i := range 150 { // more bytes of names than are read at once
				b.write(fmt.Sprintf("%s/d/%s%d", top, strings.Repeat("long", 50), i), "1")
			}
			names := b.order(top + "/d")
			last := b.at(top + "/d/" + names[len(names)-1])
			b.when(top+"/d/"+names[0], func() error { return change(b, last) })
			r := b.collect(now)
			b.want(r, content, "1")
			if left := strings.Join(r.Left, "; "); !strings.Contains(left, top+"/d: "+errChanged.Error()) {
				t.Errorf("%s, %s: left out %q", top, what, left)
			}
		}
	}
}

// TestStop: when the plugin stops, what was moved is published, and what is published as a whole or not at all is not cut.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		write []string
		files int // that are published
		torn  bool
	}{
		{"files", []string{"npm/_cacache/content-v2/", "1"}, 3, false},
		{"a unit", []string{"uv/archive-v0/a/", "1"}, 0, true},
		{"a directory of another tool", []string{"tool/", "1"}, 0, true},
	} {
		b := newBench(t)
		const all = 10
		for n := range all {
			b.write(fmt.Sprint(tt.write[0], n), tt.write[1])
		}
		ctx, stop := context.WithCancel(t.Context())
		from, err := upfile.OpenDir(b.from)
		b.ok(err)
		moved := 0
		to := b.mkdir("layer")
		r, err := Collect(ctx, Job{From: from, To: to, UID: uid, GID: gid, Now: now, Room: 1 << 20, Move: true, Moved: func(string) error {
			if moved++; moved == 3 {
				stop()
			}
			return nil
		}})
		b.ok(err, from.Close())
		if got := len(files(b, to)); got != tt.files || r.Files != tt.files || !r.Stopped || r.Torn != tt.torn || r.Over {
			t.Errorf("%s: %+v with %d files", tt.name, r, got)
		}
		clean(b, to)
		if tt.torn {
			continue
		}
		b.layers = []string{to}
		if r := b.collect(now.Add(time.Minute)); r.Files != all-tt.files || r.Stopped {
			t.Errorf("%s, the rest: %+v", tt.name, r)
		}
	}
}

// TestDry: a look at what would be left out finds that, and changes nothing.
func TestDry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.copy = true
	crate, mark := "cargo/registry/cache/i/a-1.crate", "cargo/registry/src/i/a-1/.cargo-ok"
	b.write("tool/x", "1", "npm/_cacache/index-v5/i", "i", crate, "c", mark, "{}", "maven/a/_remote.repositories", "a.jar>central=\n", "maven/a/a.jar", "j")
	if r := b.collect(now); len(r.Left) > 0 {
		t.Errorf("%+v", r)
	}
	b.write("tool/x", "2", "npm/_cacache/index-v5/i", "j", "maven/a/_remote.repositories", "a.jar>central=\nb.jar>central=\n", "maven/a/b.jar", "j",
		"cargo/registry/cache/i/half-1.crate", "half", "nuget/half/1/x", "half", "nuget/whole/1/.nupkg.metadata", "{}", "made/fifo/", "")
	b.ok(unix.Mkfifo(b.at("made/fifo/f"), 0o600))
	from, err := upfile.OpenDir(b.from)
	b.ok(err)
	defer from.Close()
	before, layers := files(b, filepath.Join(b.from, "tool")), len(b.layers)
	r, err := Collect(t.Context(), Job{From: from, Published: b.layers, UID: uid, GID: gid, Now: now, Dry: true})
	b.ok(err)
	if len(r.Left) != 3 || r.Over || r.Size != (disk.Size{}) {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"half-1.crate: " + errCut.Error(), "nuget/half/1: it is incomplete", "made/fifo/f: " + errKind.Error()} {
		if left := strings.Join(r.Left, "; "); !strings.Contains(left, want) {
			t.Errorf("left out %q, want %q", left, want)
		}
	}
	if got := files(b, filepath.Join(b.from, "tool")); len(b.layers) != layers || !maps.Equal(got, before) {
		t.Errorf("it has changed the cache: %q", got)
	}
	then := b.collect(now.Add(time.Minute))
	if !slices.Equal(slices.Sorted(slices.Values(then.Left)), slices.Sorted(slices.Values(r.Left))) {
		t.Errorf("left out %q, and the look found %q", then.Left, r.Left)
	}
}

// TestTreeAtALimit: a limit that is reached in the middle of another tool's directory leaves all of it out, and keeps those
// that were complete.
func TestTreeAtALimit(t *testing.T) {
	each(t, func(b *bench) {
		const trees, size = 10, 10
		for n := range trees * size {
			b.write(fmt.Sprintf("t%d/%d", n/size, n%size), "1")
		}
		from, err := upfile.OpenDir(b.from)
		b.ok(err)
		defer from.Close()
		j := Job{From: from, To: b.mkdir("layer"), UID: uid, GID: gid, Now: now, Room: 1 << 20, Move: !b.copy}
		r, err := collect(b.Context(), j, 5*(size+1)+size/2)
		got := files(b, j.To)
		if err != nil || !r.Over || r.Files != len(got) || r.Files != 5*size {
			b.Errorf("%+v with %d files, %v", r, len(got), err)
		}
		list, err := os.ReadDir(j.To)
		b.ok(err)
		for _, tool := range list {
			if n := len(files(b, filepath.Join(j.To, tool.Name()))); n != size {
				b.Errorf("%s has %d files, want %d", tool.Name(), n, size)
			}
		}
		clean(b, j.To)
	})
}
