package hostnames

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// world is a plugin's root directory in which an engine has mounted the directories etc and run of a
// host, and the host's files over the resolver's.
type world struct {
	*testing.T
	host string // the host's root directory
	at   Places
}

func newWorld(t *testing.T) world {
	t.Helper()
	dir := testdir.New(t, "hostnames")
	w := world{t, filepath.Join(dir, "machine"), Places{
		Host: filepath.Join(dir, "root/host"), Etc: filepath.Join(dir, "root/etc"), Copies: filepath.Join(dir, "root/run/copies"),
	}}
	for _, d := range []string{filepath.Join(w.host, "etc"), filepath.Join(w.host, "run"), filepath.Join(w.at.Host, "etc"), filepath.Join(w.at.Host, "run"), w.at.Etc} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write("etc/resolv.conf", "nameserver 192.0.2.1\n")
	w.write("etc/hosts", "127.0.0.1 localhost\n")
	return w
}

// start mounts what the engine mounts, and returns a follower.
func (w world) start() *Follower {
	w.Helper()
	for _, name := range followed {
		if err := os.WriteFile(filepath.Join(w.at.Etc, name), nil, 0o755); err != nil {
			w.Fatal(err)
		}
		w.bind("etc/"+name, filepath.Join(w.at.Etc, name))
	}
	w.bind("etc", filepath.Join(w.at.Host, "etc"))
	w.bind("run", filepath.Join(w.at.Host, "run"))
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(context.Background(), w.at, log)
}

// bind binds what an engine finds at a path of the host.
func (w world) bind(from, to string) {
	w.Helper()
	root, err := unix.Open(w.host, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		w.Fatal(err)
	}
	defer unix.Close(root)
	fd, err := openIn(root, from)
	if err != nil {
		w.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), to, "", unix.MS_BIND, ""); err != nil {
		w.Fatal(err)
	}
}

// write replaces a file of the host by rename.
func (w world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.host, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.Fatal(err)
	}
}

func (w world) link(target, name string) {
	w.Helper()
	path := filepath.Join(w.host, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.Symlink(target, path+".new"); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.Fatal(err)
	}
}

func (w world) remove(name string) {
	w.Helper()
	if err := os.Remove(filepath.Join(w.host, name)); err != nil {
		w.Fatal(err)
	}
}

// want checks what the resolver reads. Its files are links to absolute paths, which are outside of
// this test's root directory only by name.
func (w world) want(name, want string) {
	w.Helper()
	if got, err := os.ReadFile(filepath.Join(w.at.Etc, name)); err != nil || string(got) != want {
		w.Errorf("%s: got %q, %v; want %q", name, got, err, want)
	}
}

// state returns the state of /etc/resolv.conf.
func state(f *Follower) State { return f.States()[0] }

func TestFollow(t *testing.T) {
	for _, tc := range []struct {
		name           string
		before, change func(w world)
		want           string // of resolv.conf after the change
		err            string // a part of the state's error
	}{
		{name: "nothing", want: "nameserver 192.0.2.1\n"},
		{name: "replaced by rename", change: func(w world) { w.write("etc/resolv.conf", "new\n") }, want: "new\n"},
		{name: "moved away, and made anew", change: func(w world) {
			if err := os.Rename(filepath.Join(w.host, "etc/resolv.conf"), filepath.Join(w.host, "etc/resolv.conf.bak")); err != nil {
				w.Fatal(err)
			}
			w.write("etc/resolv.conf", "new\n")
		}, want: "new\n"},
		{name: "written in place, with the same size", change: func(w world) {
			if err := os.WriteFile(filepath.Join(w.host, "etc/resolv.conf"), []byte("nameserver 192.0.2.2\n"), 0o644); err != nil {
				w.Fatal(err)
			}
		}, want: "nameserver 192.0.2.2\n"},
		{name: "replaced by an absolute link", change: func(w world) {
			w.write("run/resolve/stub.conf", "stub\n")
			w.link("/run/resolve/stub.conf", "etc/resolv.conf")
		}, want: "stub\n"},
		{
			name: "a relative link whose target is replaced",
			before: func(w world) {
				w.write("run/resolve/stub.conf", "stub\n")
				w.link("../run/resolve/stub.conf", "etc/resolv.conf")
			},
			change: func(w world) { w.write("run/resolve/stub.conf", "new\n") }, want: "new\n",
		},
		{
			name: "a link to /var/run",
			before: func(w world) {
				w.write("run/a", "stub\n")
				w.link("/run", "var/run")
				w.link("/var/run/a", "etc/resolv.conf")
			},
			change: func(w world) { w.write("run/a", "new\n") }, want: "new\n",
		},
		{
			name: "a link that leads elsewhere, while its old target stays",
			before: func(w world) {
				w.write("run/a", "a\n")
				w.write("run/b", "b\n")
				w.link("/run/a", "etc/resolv.conf")
			},
			change: func(w world) { w.link("/run/b", "etc/resolv.conf") }, want: "b\n",
		},
		{name: "removed", change: func(w world) { w.remove("etc/resolv.conf") }, want: "nameserver 192.0.2.1\n", err: "no such file"},
		{name: "emptied", change: func(w world) { w.write("etc/resolv.conf", "") }, want: ""},
		{
			name:   "a link out of both directories",
			change: func(w world) { w.link("/mnt/wsl/resolv.conf", "etc/resolv.conf") },
			want:   "nameserver 192.0.2.1\n", err: "a link to /mnt/wsl/resolv.conf, which",
		},
		{
			name:   "a link up and out",
			change: func(w world) { w.link("../../../../../../../../../etc/passwd", "etc/resolv.conf") },
			want:   "nameserver 192.0.2.1\n", err: "which does not exist",
		},
		{name: "a link to itself", change: func(w world) { w.link("resolv.conf", "etc/resolv.conf") }, want: "nameserver 192.0.2.1\n", err: "too many levels"},
		{name: "a FIFO", change: func(w world) {
			w.remove("etc/resolv.conf")
			if err := unix.Mkfifo(filepath.Join(w.host, "etc/resolv.conf"), 0o644); err != nil {
				w.Fatal(err)
			}
		}, want: "nameserver 192.0.2.1\n", err: "not a regular file"},
		{name: "a directory", change: func(w world) {
			w.remove("etc/resolv.conf")
			if err := os.Mkdir(filepath.Join(w.host, "etc/resolv.conf"), 0o755); err != nil {
				w.Fatal(err)
			}
		}, want: "nameserver 192.0.2.1\n", err: "not a regular file"},
		{name: "too large", change: func(w world) {
			w.write("etc/resolv.conf", "")
			if err := os.Truncate(filepath.Join(w.host, "etc/resolv.conf"), most+1); err != nil {
				w.Fatal(err)
			}
		}, want: "nameserver 192.0.2.1\n", err: "the most is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			if tc.before != nil {
				tc.before(w)
			}
			f := w.start()
			if s := state(f); s.Err != nil || s.Since.IsZero() {
				t.Errorf("before: %v", s)
			}
			if tc.change != nil {
				tc.change(w)
			}
			f.look()
			w.want("resolv.conf", tc.want)
			w.want("hosts", "127.0.0.1 localhost\n")
			if s := state(f); (s.Err == nil) != (tc.err == "") || s.Err != nil && !strings.Contains(s.Err.Error(), tc.err) {
				t.Errorf("got %v, want an error with %q", s, tc.err)
			}

			os.RemoveAll(filepath.Join(w.host, "etc/resolv.conf"))
			w.write("etc/resolv.conf", "at last\n")
			w.write("etc/hosts", "192.0.2.9 git.lan\n")
			f.look()
			w.want("resolv.conf", "at last\n")
			w.want("hosts", "192.0.2.9 git.lan\n")
			if s := state(f); s.Err != nil {
				t.Errorf("at last: %v", s)
			}
		})
	}
}

// A file that can't be read at the start stays as the engine gave it, until it can be read.
func TestFollowLater(t *testing.T) {
	w := newWorld(t)
	w.write("nix/resolv.conf", "nameserver 192.0.2.1\n")
	w.link("/nix/resolv.conf", "etc/resolv.conf")
	f := w.start()
	s := state(f)
	if s.Err == nil || !s.Since.IsZero() || s.Replaced {
		t.Errorf("got %+v", s)
	}
	w.want("resolv.conf", "nameserver 192.0.2.1\n")
	w.write("nix/resolv.conf", "replaced\n")
	f.look()
	s = state(f)
	if s.Err == nil || !s.Since.IsZero() || !s.Replaced || !strings.Contains(s.String(), "is that of the plugin's start") {
		t.Errorf("got %+v", s)
	}
	w.want("resolv.conf", "nameserver 192.0.2.1\n")
	w.write("etc/resolv.conf", "new\n")
	f.look()
	w.want("resolv.conf", "new\n")
	if s := state(f); s.Err != nil || s.Replaced {
		t.Errorf("got %+v", s)
	}
}

// Without the mounts of an engine nothing changes, whatever the directories have.
func TestFollowNothing(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.at.Etc, "resolv.conf"), []byte("own\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, at := range []Places{{}, w.at} {
		if f := New(context.Background(), at, logrus.New()); len(f.States()) > 0 {
			t.Errorf("%+v: %v", at, f.States())
		}
	}
	w.bind("etc", filepath.Join(w.at.Host, "etc"))
	if f := New(context.Background(), w.at, logrus.New()); len(f.States()) > 0 {
		t.Errorf("a file that no engine has mounted: %v", f.States())
	}
	w.want("resolv.conf", "own\n")
}

// Only root enters the host's directories, and everybody reads the copies.
func TestModes(t *testing.T) {
	w := newWorld(t)
	old := unix.Umask(0o077)
	t.Cleanup(func() { unix.Umask(old) })
	w.start()
	for path, want := range map[string]os.FileMode{
		w.at.Host: 0o700 | os.ModeDir, w.at.Copies: 0o755 | os.ModeDir, filepath.Join(w.at.Copies, "hosts"): 0o644,
	} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# nameserver 192.0.2.9\nsearch example.com\nnameserver 192.0.2.1\nnameserver\t2001:db8::1 # two\nnameserver\noptions edns0\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Servers(file)
	if want := "192.0.2.1 2001:db8::1"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := Servers(file + "x"); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}
