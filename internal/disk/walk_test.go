package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// memory returns a directory in memory, for trees that take long to make on a disk.
func memory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// deep makes a chain of n directories below dir, each with a file and an empty
// directory, as a program does that goes down with chdir.
func deep(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	name := strings.Repeat("d", 100)
	for range n {
		must(t, unix.Mkdirat(fd, "a", 0o700), unix.Mkdirat(fd, name, 0o700), unix.Mknodat(fd, "file", unix.S_IFREG|0o600, 0))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err, unix.Close(fd))
		fd = next
	}
	must(t, unix.Close(fd))
}

// descriptors counts the open descriptors of the process.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(open)
}

// recorder is a Visitor that enters all directories.
type recorder struct {
	visits, leaves map[string]int
	skips          []error
	visit, leave   func(e Entry)
}

func record() *recorder { return &recorder{visits: map[string]int{}, leaves: map[string]int{}} }

func (r *recorder) Visit(e Entry) bool {
	r.visits[e.Name]++
	if r.visit != nil {
		r.visit(e)
	}
	return e.Type == unix.DT_DIR || e.Depth == 0
}

func (r *recorder) Leave(e Entry) {
	r.leaves[e.Name]++
	if r.leave != nil {
		r.leave(e)
	}
}

func (r *recorder) Skip(_ Entry, err error) { r.skips = append(r.skips, err) }

// TestWalkVisitsOnce checks that each name is visited once, and that each directory is left
// after its entries, however deep and wide the tree is.
func TestWalkVisitsOnce(t *testing.T) {
	for _, where := range []struct {
		name string
		dir  func(t *testing.T) string
	}{{"disk", (*testing.T).TempDir}, {"memory", memory}} {
		t.Run(where.name, func(t *testing.T) {
			dir := filepath.Join(where.dir(t), "top")
			want := map[string]int{"top": 1}
			must(t, os.Mkdir(dir, 0o700))
			// Chains longer than the window below a directory of more than a batch.
			for i := range 600 {
				name := fmt.Sprintf("%s-%d", strings.Repeat("n", 40), i)
				path := filepath.Join(dir, name)
				want[name]++
				must(t, os.Mkdir(path, 0o700))
				for d := range i % 12 {
					path = filepath.Join(path, fmt.Sprintf("%d-%d", i, d))
					want[filepath.Base(path)]++
					must(t, os.Mkdir(path, 0o700))
				}
			}
			before, most := descriptors(t), 0
			r := record()
			r.visit = func(Entry) { most = max(most, descriptors(t)-before) }
			r.leave = func(e Entry) {
				if r.visits[e.Name] != 1 {
					t.Errorf("%q is left before it is visited", e.Name)
				}
			}
			must(t, Walk(t.Context(), dir, r, nil))
			if fmt.Sprint(r.visits) != fmt.Sprint(want) {
				t.Errorf("visits %v, want %v", r.visits, want)
			}
			if fmt.Sprint(r.leaves) != fmt.Sprint(want) {
				t.Errorf("leaves %v, want %v", r.leaves, want)
			}
			if r.skips != nil || most > window+2 || descriptors(t) != before {
				t.Errorf("skipped %v; %d descriptors at once, %d at the end", r.skips, most, descriptors(t)-before)
			}
		})
	}
}

func TestWalkDeep(t *testing.T) {
	dir := memory(t)
	const n = 50000
	deep(t, dir, n)
	r := record()
	deepest := 0
	r.visit = func(e Entry) { deepest = max(deepest, e.Depth) }
	// A mount point itself is skipped.
	must(t, Walk(t.Context(), filepath.Join(dir, strings.Repeat("d", 100)), r, nil))
	if got := r.visits[strings.Repeat("d", 100)]; got != n || deepest != n-1 || r.visits["file"] != n-1 || r.visits["a"] != n-1 {
		t.Errorf("%d directories to depth %d, %d files, %d empty directories, want %d", got, deepest, r.visits["file"], r.visits["a"], n)
	}
	if r.leaves[strings.Repeat("d", 100)] != n || r.skips != nil {
		t.Errorf("left %d, skipped %v", r.leaves[strings.Repeat("d", 100)], r.skips)
	}
}

// TestWalkMoved checks that a program that moves directories does not lead the walk
// elsewhere.
func TestWalkMoved(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "top"), filepath.Join(base, "outside")
	path := filepath.Join(dir, "0/1/2/3/4/5/6/7/8/9")
	must(t, os.MkdirAll(path, 0o700), os.MkdirAll(filepath.Join(outside, "secret"), 0o700))
	for i := range 5 {
		must(t, os.WriteFile(filepath.Join(dir, "file"+strconv.Itoa(i)), nil, 0o600))
	}
	r := record()
	r.visit = func(e Entry) {
		if e.Name == "9" {
			must(t, os.Rename(filepath.Join(dir, "0/1/2/3"), filepath.Join(outside, "3")))
		}
	}
	must(t, Walk(t.Context(), dir, r, nil))
	if len(r.skips) != 1 || !errors.Is(r.skips[0], ErrMoved) {
		t.Errorf("skipped %v, want ErrMoved", r.skips)
	}
	if r.visits["secret"] != 0 || r.visits["outside"] != 0 {
		t.Errorf("outside was visited: %v", r.visits)
	}
	for i := range 5 { // the walk continues at the top
		if r.visits["file"+strconv.Itoa(i)] != 1 {
			t.Errorf("visits %v", r.visits)
		}
	}
}

func TestWalkVanishing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "top")
	for i := range 50 {
		must(t, os.MkdirAll(filepath.Join(dir, "n"+strconv.Itoa(i), "1/2/3/4/5/6/7/8"), 0o700))
	}
	r := record()
	r.visit = func(e Entry) {
		if e.Name == "7" {
			all, err := os.ReadDir(dir)
			must(t, err)
			for _, d := range all {
				must(t, os.RemoveAll(filepath.Join(dir, d.Name())))
			}
		}
	}
	must(t, Walk(t.Context(), dir, r, nil))
	if r.visits["7"] != 1 || r.visits["8"] != 0 {
		t.Errorf("visits %v", r.visits)
	}
}

func TestWalkStaysInside(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "top"), filepath.Join(base, "outside")
	must(t, os.MkdirAll(filepath.Join(dir, "bind"), 0o700), os.MkdirAll(filepath.Join(dir, "mem"), 0o700),
		os.MkdirAll(filepath.Join(outside, "secret"), 0o700), os.Symlink(outside, filepath.Join(dir, "link")),
		unix.Mount(outside, filepath.Join(dir, "bind"), "", unix.MS_BIND, ""), unix.Mount("tmpfs", filepath.Join(dir, "mem"), "tmpfs", 0, ""))
	t.Cleanup(func() {
		must(t, unix.Unmount(filepath.Join(dir, "bind"), unix.MNT_DETACH), unix.Unmount(filepath.Join(dir, "mem"), unix.MNT_DETACH))
	})
	must(t, os.WriteFile(filepath.Join(dir, "mem", "big"), make([]byte, 1<<20), 0o600))
	r := record()
	must(t, Walk(t.Context(), dir, r, nil))
	if r.visits["secret"] != 0 || r.visits["big"] != 0 || len(r.skips) != 2 || !errors.Is(r.skips[0], unix.EXDEV) {
		t.Errorf("visits %v, skips %v", r.visits, r.skips)
	}
	// Measuring a link does not follow it.
	if s, err := Measure(t.Context(), filepath.Join(dir, "link")); err != nil || s.Inodes != 1 {
		t.Errorf("a link: %+v, %v", s, err)
	}
	got, err := Query{}.Take(t.Context(), dir)
	if err != nil || got.Bytes > 64<<10 || got.Inodes != 2 || got.Files != 1 {
		t.Errorf("with mounts: %+v, %v", got, err)
	}
}

func TestWalkCanceled(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	r := record()
	r.visit = func(Entry) { cancel() }
	if err := Walk(ctx, dir, r, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := Walk(ctx, dir, r, NewPace(100)); !errors.Is(err, context.Canceled) {
		t.Errorf("paced: got %v", err)
	}
}

// du counts as we do.
func du(t *testing.T, dir string) Size {
	t.Helper()
	var s Size
	for i, args := range [][]string{{"-s", "-B1"}, {"-s", "--inodes"}} {
		out, err := exec.Command("du", append(args, dir)...).Output()
		must(t, err)
		n, err := strconv.ParseInt(strings.Fields(string(out))[0], 10, 64)
		must(t, err)
		if i == 0 {
			s.Bytes = n
		} else {
			s.Inodes = n
		}
	}
	return s
}

func TestMeasure(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "top")
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.MkdirAll(filepath.Join(base, "store"), 0o700))
	pack := filepath.Join(base, "store", "pack")
	must(t, os.WriteFile(pack, make([]byte, 1<<20), 0o600), os.Link(pack, filepath.Join(dir, "pack")))
	must(t, os.WriteFile(filepath.Join(dir, "a", "f"), make([]byte, 100000), 0), os.Link(filepath.Join(dir, "a", "f"), filepath.Join(dir, "a", "b", "g")))
	must(t, os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600), os.Truncate(filepath.Join(dir, "sparse"), 1<<40))
	must(t, os.Symlink("/", filepath.Join(dir, "link")), unix.Mknod(filepath.Join(dir, "whiteout"), unix.S_IFCHR, 0))
	must(t, unix.Mkfifo(filepath.Join(dir, "a", "fifo"), 0o600), os.Chmod(filepath.Join(dir, "a", "b"), 0), os.Chmod(filepath.Join(dir, "a"), 0))
	got, err := Query{}.Take(t.Context(), dir)
	if want := (Survey{Size: du(t, dir), Files: 7}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	own, err := Query{Own: true, Skip: []string{"a/b", "link", "missing/x"}}.Take(t.Context(), dir)
	if err != nil || own.Bytes >= got.Bytes-1<<20 || own.Files != 3 {
		t.Errorf("its own: %+v, %v", own, err)
	}
	for _, tt := range []struct {
		skip []string
		want int64
	}{{[]string{"a"}, 4}, {[]string{"a/b"}, 6}, {[]string{"a/b/g", "a/f"}, 5}, {[]string{"a/b/g", "a"}, 4}, {[]string{"b", "f"}, 7}} {
		if s, err := (Query{Skip: tt.skip}).Take(t.Context(), dir); err != nil || s.Files != tt.want || s.Size != got.Size {
			t.Errorf("without %q: %+v, %v, want %d files", tt.skip, s, err, tt.want)
		}
	}
	if s, err := Measure(t.Context(), pack); err != nil || s.Inodes != 1 || s.Bytes < 1<<20 {
		t.Errorf("a file: %+v, %v", s, err)
	}
	if _, err := Measure(t.Context(), filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("missing: %v", err)
	}
}

func TestBudget(t *testing.T) {
	dir := t.TempDir()
	_, err := Query{Budget: -1}.Take(t.Context(), dir)
	if !errors.Is(err, errBudget) || !AtLeast(err) {
		t.Errorf("got %v", err)
	}
	if _, err := (Query{Budget: 24 * time.Hour}).Take(t.Context(), dir); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Query{Budget: -1}).Take(ctx, dir); !errors.Is(err, context.Canceled) || AtLeast(err) {
		t.Errorf("canceled: got %v", err)
	}
}

// TestMeasureManyLinks checks that links beyond the remembered ones count a fraction each.
func TestMeasureManyLinks(t *testing.T) {
	s := &surveyor{linked: make(map[uint64]struct{})}
	for i := range maxLinked {
		s.linked[uint64(i)] = struct{}{}
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "0"), make([]byte, 12288), 0o600))
	for i := range 2 {
		must(t, os.Link(filepath.Join(dir, "0"), filepath.Join(dir, strconv.Itoa(i+1))))
	}
	delete(s.linked, 0)
	s.linked[^uint64(0)] = struct{}{}
	s.skip = []*node{newNode(nil)}
	must(t, Walk(t.Context(), dir, s, nil))
	if got, want := s.total().Size, du(t, dir); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSpaceOf(t *testing.T) {
	dir := memory(t)
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=1m,nr_inodes=100"))
	before, err := SpaceOf(dir)
	must(t, err, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<19), 0o600))
	after, err := SpaceOf(dir)
	must(t, err)
	if before.Total != (Size{1 << 20, 100}) || before.Free.Sub(after.Free) != (Size{1 << 19, 1}) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if _, err := SpaceOf(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}
