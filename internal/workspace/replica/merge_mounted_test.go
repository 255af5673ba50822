package replica

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testtree"
)

// inode returns the number of a file.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	st, err := upfile.Stat(unix.AT_FDCWD, path)
	check(t, err)
	return st.Ino
}

// TestMergeMounted: a merge of uppers on which an overlay is mounted changes no inode number there: of files that the
// overlay has copied up, and of those that it copies up afterwards. It links what has several names, and the files of
// other uppers.
func TestMergeMounted(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		s := newStack(t, filepath.Join(dir, "s"))
		big := strings.Repeat("x", 1<<20)
		lower := s.add(nil, func(dir string) {
			check(t, os.WriteFile(dir+"/before", []byte(big), 0o644))
			check(t, os.WriteFile(dir+"/after", []byte(big), 0o644))
			check(t, os.WriteFile(dir+"/one", []byte(big), 0o644))
			check(t, os.Link(dir+"/one", dir+"/two"))
			check(t, os.Symlink("target", dir+"/link"))
			check(t, unix.Mkfifo(dir+"/fifo", 0o600))
		})
		other := s.add([]string{lower}, func(dir string) { check(t, os.WriteFile(dir+"/other", []byte(big), 0o644)) })
		touch := func(path string) {
			t.Helper()
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			check(t, err)
			_, err = f.WriteString("y")
			check(t, err)
			check(t, f.Close())
		}
		for _, tt := range []struct {
			name    string
			mounted func(n int) bool // at its n-th question about lower
		}{
			{"always", func(int) bool { return true }},
			{"since a link was made", func(n int) bool { return n%2 == 0 }},
		} {
			t.Run(tt.name, func(t *testing.T) {
				at := t.TempDir()
				live := filepath.Join(s.dir, "live "+filepath.Base(tt.name))
				spec := overlay.Spec{Lower: []string{lower, s.lower}, Upper: live + "/upper", Work: live + "/work", Target: at}
				for _, d := range []string{spec.Upper, spec.Work} {
					check(t, os.MkdirAll(d, 0o755))
				}
				unmount := s.mount(spec)
				defer unmount()
				names := []string{"before", "after", "one", "two", "link", "fifo"}
				touch(at + "/before")
				check(t, os.Chmod(at+"/fifo", 0o644))
				want := make(map[string]uint64)
				for _, name := range names {
					want[name] = inode(t, filepath.Join(at, name))
				}
				n := 0
				layer, result, err := s.mergeBeside([]string{other, lower}, generous, func(upper int) bool {
					if upper == 0 {
						return false
					}
					n++
					return tt.mounted(n)
				})
				check(t, err)
				touch(at + "/after")
				for _, name := range names {
					if got := inode(t, filepath.Join(at, name)); got != want[name] {
						t.Errorf("%s has another inode number than before", name)
					}
				}
				if d := testtree.Differ(s.shows([]string{other, lower}), s.shows([]string{layer})); len(d) > 0 {
					t.Fatal(testtree.Show(d))
				}
				for name, from := range map[string]string{"one": lower, "two": lower, "other": other, "before": "", "after": "", "link": "", "fifo": ""} {
					got := inode(t, filepath.Join(layer, name))
					if from != "" && got != inode(t, filepath.Join(from, name)) {
						t.Errorf("%s is no link", name)
					} else if from == "" && got == inode(t, filepath.Join(lower, name)) {
						t.Errorf("%s is a link", name)
					}
				}
				if n := result.Copied + result.Cloned; n != 2*int64(len(big)) {
					t.Errorf("%+v, want two copies of %d bytes", result, len(big))
				}
			})
		}
	})
}

// TestMergeSize: what a merge says that it has made, and that the layer takes, is what is on the disk.
func TestMergeSize(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		s := newStack(t, filepath.Join(dir, "s"))
		lower := s.add(nil, func(dir string) {
			check(t, os.MkdirAll(dir+"/new/deep", 0o755))
			check(t, os.WriteFile(dir+"/new/file", make([]byte, 1<<20), 0o644))
			check(t, os.WriteFile(dir+"/new/changed", make([]byte, 1<<20), 0o644))
			check(t, os.Link(dir+"/new/file", dir+"/new/deep/again"))
			check(t, os.WriteFile(dir+"/gone", make([]byte, 1<<20), 0o644))
			check(t, os.RemoveAll(dir+"/d2"))
		})
		uppers := []string{s.add([]string{lower}, func(dir string) {
			check(t, os.Chmod(dir+"/new/changed", 0o600))
			check(t, os.Remove(dir+"/gone"))
		}), lower}
		layer, result, err := s.merge(uppers, generous)
		check(t, err)
		unix.Sync()
		found, err := disk.Measure(context.Background(), layer)
		check(t, err)
		if result.Whole != found {
			t.Errorf("it takes %+v, and has %+v", result.Whole, found)
		}
		shared := disk.Size{Inodes: 1}
		for name, n := range map[string]int64{"new/file": 1, "new/changed": result.Cloned >> 20} {
			st, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(layer, name))
			check(t, err)
			shared.Bytes += n * st.Blocks * 512
		}
		if result.Made != found.Sub(shared) {
			t.Errorf("it made %+v of %+v, and shares %+v", result.Made, found, shared)
		}
	})
}
