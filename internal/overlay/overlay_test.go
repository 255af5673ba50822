package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// newSpec makes the directories of an overlay with one file, "file", and one
// directory, "dir", in the lower layer. Whatever the test leaves mounted is
// detached at its end.
func newSpec(t *testing.T) Spec {
	t.Helper()
	dir := t.TempDir()
	s := Spec{
		Source: "test",
		Lower:  []string{filepath.Join(dir, "lower")},
		Upper:  filepath.Join(dir, "upper"),
		Work:   filepath.Join(dir, "work"),
		Target: filepath.Join(dir, "tree"),
	}
	mkdir(t, filepath.Join(s.Lower[0], "dir"), s.Upper, s.Work, s.Target)
	write(t, filepath.Join(s.Lower[0], "file"), "lower")
	t.Cleanup(func() {
		if err := removeProbe(dir); err != nil {
			t.Errorf("cleanup: %v", err)
		}
	})
	return s
}

func mkdir(t *testing.T, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mustMount(t *testing.T, s Spec) {
	t.Helper()
	if err := Mount(s); err != nil {
		t.Fatal(err)
	}
}

func mustDetach(t *testing.T, target string) {
	t.Helper()
	release, err := Detach(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func info(t *testing.T, target string) *mountinfo.Info {
	t.Helper()
	infos, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(target))
	if err != nil || len(infos) != 1 {
		t.Fatalf("mountinfo of %q: %v, %v", target, infos, err)
	}
	return infos[0]
}

func hasOption(options, want string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == want {
			return true
		}
	}
	return false
}

// ways are both ways to mount. The kernel must have both.
var ways = map[string]func(Spec) error{
	"descriptors": Mount,
	"string": func(s Spec) error {
		target, _, err := openDir(unix.AT_FDCWD, s.Target)
		if err != nil {
			return err
		}
		defer unix.Close(target)
		return mountString(s, target)
	},
}

// TestMount checks that both ways to mount give the same overlay.
func TestMount(t *testing.T) {
	tests := []struct {
		name     string
		volatile bool
		metacopy bool
		layers   int    // above the first
		part     string // of each layer's path
	}{
		{name: "plain"},
		{name: "volatile", volatile: true},
		{name: "metacopy", metacopy: true},
		{name: "both", volatile: true, metacopy: true},
		{name: "100 layers", volatile: true, layers: 100, part: strings.Repeat("x", 200) + "/" + strings.Repeat("y", 200)},
		{name: "odd names", layers: 3, part: "a:b,c\\d=e \n"},
	}
	for way, mount := range ways {
		for _, tt := range tests {
			t.Run(way+"/"+tt.name, func(t *testing.T) {
				s := newSpec(t)
				s.Volatile, s.Metacopy = tt.volatile, tt.metacopy
				for i := range tt.layers {
					l := filepath.Join(filepath.Dir(s.Upper), "layers", fmt.Sprint(i), tt.part)
					mkdir(t, l)
					write(t, filepath.Join(l, fmt.Sprintf("layer%d", i)), "x")
					write(t, filepath.Join(l, "top"), fmt.Sprint(i))
					s.Lower = append([]string{l}, s.Lower...)
				}
				if err := mount(s); err != nil {
					t.Fatal(err)
				}
				for i := range tt.layers {
					if _, err := os.Stat(filepath.Join(s.Target, fmt.Sprintf("layer%d", i))); err != nil {
						t.Error(err)
					}
				}
				if tt.layers > 0 {
					if got, want := read(t, filepath.Join(s.Target, "top")), fmt.Sprint(tt.layers-1); got != want {
						t.Errorf("the topmost layer is %s, want %s", got, want)
					}
				}

				m := info(t, s.Target)
				for _, o := range []string{"nodev", "nosuid"} {
					if !hasOption(m.Options, o) {
						t.Errorf("options %q without %s", m.Options, o)
					}
				}
				if m.Source != "test" || m.FSType != "overlay" {
					t.Errorf("source %q type %q", m.Source, m.FSType)
				}
				// Kernels spell the option differently; this is what it does.
				_, err := os.Stat(filepath.Join(s.Work, "work", "incompat", "volatile"))
				if got := err == nil; got != tt.volatile {
					t.Errorf("volatile is %v, want %v", got, tt.volatile)
				}

				file := filepath.Join(s.Target, "file")
				if err := os.Chmod(file, 0o600); err != nil {
					t.Fatal(err)
				}
				_, err = unix.Lgetxattr(filepath.Join(s.Upper, "file"), "trusted.overlay.metacopy", nil)
				if got := err == nil; got != tt.metacopy {
					t.Errorf("metacopy is %v, want %v", got, tt.metacopy)
				}
				err = os.Rename(filepath.Join(s.Target, "dir"), filepath.Join(s.Target, "moved"))
				if got := err == nil; got != tt.metacopy {
					t.Errorf("a rename of a lower directory: %v, want redirects %v", err, tt.metacopy)
				}
				write(t, file, "upper")
				if got := read(t, filepath.Join(s.Lower[len(s.Lower)-1], "file")); got != "lower" {
					t.Errorf("the lower layer has %q", got)
				}
				if got := read(t, filepath.Join(s.Upper, "file")); got != "upper" {
					t.Errorf("the upper has %q", got)
				}
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
				var st unix.Stat_t
				if err := unix.Lstat(filepath.Join(s.Upper, "file"), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
					t.Errorf("no whiteout: %v, mode %o", err, st.Mode)
				}
				mustDetach(t, s.Target)
			})
		}
	}
}

func TestMountRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, s *Spec)
		want   string
		is     error
	}{
		{"no lower", func(t *testing.T, s *Spec) { s.Lower = nil }, "no lower layer", nil},
		{"missing lower", func(t *testing.T, s *Spec) { s.Lower = []string{"/nowhere"} }, `open "/nowhere"`, fs.ErrNotExist},
		{"missing upper", func(t *testing.T, s *Spec) { s.Upper += "x" }, "upperx", fs.ErrNotExist},
		{"work within upper", func(t *testing.T, s *Spec) {
			s.Work = filepath.Join(s.Upper, "work")
			mkdir(t, s.Work)
		}, "create: invalid argument", unix.EINVAL},
		{"upper on proc", func(t *testing.T, s *Spec) { s.Upper = "/proc/1" }, "create: invalid argument", unix.EINVAL},
		{"501 layers", func(t *testing.T, s *Spec) {
			for range 500 {
				s.Lower = append(s.Lower, s.Lower[0])
			}
		}, "too many lower directories, limit is 500", nil},
		{"too long a line in mountinfo", func(t *testing.T, s *Spec) {
			for range 300 {
				s.Lower = append(s.Lower, "/"+strings.Repeat("x", 200))
			}
		}, "the paths of 301 lower layers", nil},
		{"lower a link", func(t *testing.T, s *Spec) {
			link := s.Lower[0] + "-link"
			if err := os.Symlink(s.Lower[0], link); err != nil {
				t.Fatal(err)
			}
			s.Lower = []string{link}
		}, "not a directory", unix.ENOTDIR},
		{"target a link", func(t *testing.T, s *Spec) {
			link := s.Target + "-link"
			if err := os.Symlink(s.Target, link); err != nil {
				t.Fatal(err)
			}
			s.Target = link
		}, "not a directory", unix.ENOTDIR},
		{"source too long", func(t *testing.T, s *Spec) { s.Source = strings.Repeat("s", 300) }, "source", unix.EINVAL},
		{"mounted already", func(t *testing.T, s *Spec) {
			first := *s
			first.Upper, first.Work = s.Upper+"1", s.Work+"1"
			mkdir(t, first.Upper, first.Work)
			mustMount(t, first)
		}, "", errMounted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSpec(t)
			tt.change(t, &s)
			before, err := Mounts(filepath.Dir(s.Target))
			if err != nil {
				t.Fatal(err)
			}
			err = Mount(s)
			if err == nil {
				t.Fatal("mounted")
			}
			if !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v, want %q and %v", err, tt.want, tt.is)
			}
			after, err := Mounts(filepath.Dir(s.Target))
			if err != nil {
				t.Fatal(err)
			}
			if len(after) != len(before) {
				t.Errorf("mounts before %v, after %v", before, after)
			}
		})
	}
}

// TestMountWithoutRoom checks that an overlay without an inode for the kernel's directory in
// Work, which the kernel makes read-only, is not mounted, and that it is once there is one.
func TestMountWithoutRoom(t *testing.T) {
	for way, mount := range ways {
		t.Run(way, func(t *testing.T) {
			s := newSpec(t)
			small := t.TempDir()
			if err := unix.Mount("tmpfs", small, "tmpfs", 0, "nr_inodes=20"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			s.Upper, s.Work, s.Volatile = filepath.Join(small, "upper"), filepath.Join(small, "work"), true
			mkdir(t, s.Upper, s.Work)
			var fill []string
			for {
				name := filepath.Join(small, fmt.Sprint("fill", len(fill)))
				err := os.WriteFile(name, nil, 0o600)
				if errors.Is(err, unix.ENOSPC) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				fill = append(fill, name)
			}
			if err := mount(s); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("without an inode: %v, want ENOSPC", err)
			}
			if mounted, err := Mounted(s.Target); mounted || err != nil {
				t.Errorf("mounted %v, %v", mounted, err)
			}
			for _, name := range fill[:10] {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			if err := mount(s); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(s.Target, "file"), "changed")
			release, err := Detach(s.Target)
			if err == nil {
				err = release()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMountStringTooLong(t *testing.T) {
	s := newSpec(t)
	for len(s.Lower) < 400 {
		s.Lower = append(s.Lower, s.Lower[0])
	}
	target, _, err := openDir(unix.AT_FDCWD, s.Target)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(target)
	err = mountString(s, target)
	if err == nil || !strings.Contains(err.Error(), "400 lower layers need") {
		t.Errorf("got %v", err)
	}
}
