package cache

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// thing is an entry of the model: of an upper, or published.
type thing struct {
	kind string // "dir", "file", "link", "fifo", "white"
	text string // content or target
	exec bool
	at   time.Time
	// hidden means that the file has no data, and shown is the content that the container saw: "" if it is at its own path.
	hidden bool
	shown  string
	linked bool // it has another name outside of the cache
}

// tree has the entries below a cache, by path. The parents of each are in it, too.
type tree map[string]thing

// model says what is published, in other words than the code: by prefixes of paths for two tools and others.
type model struct {
	published tree
}

// unitOf returns the unit that a path of the model is in, or "".
func unitOf(rel string) string {
	if parts := strings.Split(rel, "/"); parts[0] == "nuget" && len(parts) >= 3 && !strings.HasPrefix(parts[1], ".") {
		return path.Join(parts[:3]...)
	}
	return ""
}

// collect returns what has to be in the new layer, and publishes it.
func (m *model) collect(up tree, now time.Time) tree {
	layer := make(tree)
	for _, rel := range slices.Sorted(maps.Keys(up)) {
		t := up[rel]
		if t.kind == "dir" || !m.parentsAre(up, rel) {
			continue
		}
		if unit := unitOf(rel); unit != "" && unit != rel {
			if _, ok := m.published[unit]; ok || !wholeUnit(up, unit) {
				continue
			}
			layer[rel] = m.made(rel, t, now)
			continue
		}
		old, known := m.published[rel]
		if t.kind != "file" && t.kind != "link" || known && old.kind != t.kind || t.hidden && t.shown == "" {
			continue
		}
		var isNew bool
		switch {
		case strings.HasPrefix(rel, "npm/_cacache/content-v2/"):
			isNew = !known
		case strings.HasPrefix(rel, "npm/_cacache/index-v5/"), otherTool(rel):
			isNew = !known || t.at.After(old.at) && m.made(rel, t, now).text != old.text
		}
		if strings.HasSuffix(rel, ".lock") || path.Base(rel) == "auth.json" { // in units they are the package's
			isNew = false
		}
		if isNew {
			layer[rel] = m.made(rel, t, now)
		}
	}
	for rel, t := range layer {
		m.published[rel] = t
		for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
			m.published[dir] = thing{kind: "dir"}
		}
	}
	return layer
}

// otherTool reports whether a path is that of a tool that is not in the table, and has no name of a secret.
func otherTool(rel string) bool {
	parts := strings.Split(rel, "/")
	return len(parts) > 1 && parts[0] != "npm" && parts[0] != "nuget" && !slices.Contains(parts, "auth.json") && !slices.Contains(parts, ".ssh")
}

// made is a file or link as the layer has it.
func (m *model) made(rel string, t thing, now time.Time) thing {
	made := thing{kind: t.kind, text: t.text, exec: t.exec && t.kind == "file", at: now}
	if t.hidden {
		made.text = t.shown
	}
	if !strings.HasPrefix(rel, "npm/_cacache/content-v2/") && unitOf(rel) == "" && t.at.Before(now) {
		made.at = t.at
	}
	return made
}

// parentsAre reports whether what is above rel is a directory wherever it is.
func (m *model) parentsAre(up tree, rel string) bool {
	for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
		if old, ok := m.published[dir]; ok && old.kind != "dir" || up[dir].kind != "dir" {
			return false
		}
	}
	return true
}

// wholeUnit reports whether a unit can be published.
func wholeUnit(up tree, unit string) bool {
	mark := up[unit+"/.nupkg.metadata"]
	for rel, t := range up {
		if strings.HasPrefix(rel, unit+"/") && (t.kind == "fifo" || t.kind == "white" || t.hidden && t.shown == "") {
			return false
		}
	}
	return mark.kind == "file" && len(mark.text) > 0
}

// grow makes a random tree below dir, and returns it.
func grow(t *testing.T, r *rand.Rand, dir, outside string, from, to time.Time) tree {
	up := make(tree)
	tops := []string{"npm/_cacache/content-v2", "npm/_cacache/index-v5", "npm/_logs", "nuget", "tool", "npm", "."}
	names := []string{"a", "b", "c", ".nupkg.metadata", "auth.json", "x.lock", ".ssh", "new\nline\xff"}
	for range 1 + r.IntN(40) {
		rel := tops[r.IntN(len(tops))]
		for range 1 + r.IntN(4) {
			rel = path.Join(rel, names[r.IntN(len(names))])
		}
		if free(up, rel) {
			up[rel] = random(r, from, to)
		}
		if r.IntN(3) == 0 { // units need luck
			unit := path.Join("nuget", names[r.IntN(3)], names[r.IntN(2)])
			if rel := unit + "/.nupkg.metadata"; free(up, rel) {
				up[rel] = thing{kind: "file", text: "{}", at: from}
			}
		}
	}
	for _, rel := range slices.Sorted(maps.Keys(up)) {
		for parent := path.Dir(rel); parent != "."; parent = path.Dir(parent) {
			up[parent] = thing{kind: "dir"}
		}
	}
	for _, rel := range slices.Sorted(maps.Keys(up)) {
		if err := up[rel].make(filepath.Join(dir, rel), outside); err != nil {
			t.Fatal(err)
		}
	}
	return up
}

// free reports whether an entry can be at rel.
func free(up tree, rel string) bool {
	if _, ok := up[rel]; ok {
		return false
	}
	for other := range up {
		if strings.HasPrefix(other, rel+"/") || strings.HasPrefix(rel, other+"/") {
			return false
		}
	}
	return true
}

func random(r *rand.Rand, from, to time.Time) thing {
	t := thing{kind: "file", at: from.Add(time.Duration(r.Int64N(int64(to.Sub(from)))))}
	t.text = strings.Repeat(string(rune('a'+r.IntN(3))), r.IntN(4))
	switch r.IntN(20) {
	case 0:
		t.kind = "fifo"
	case 1:
		t.kind = "white"
	case 2, 3:
		t.kind, t.text = "link", "/etc/"+t.text+"x"
	case 4:
		t.kind = "dir"
	case 5, 6:
		t.linked = true
	case 7:
		t.hidden, t.text = true, strings.Repeat("\x00", len(t.text))
	case 8:
		if t.text != "" {
			t.hidden, t.shown, t.text = true, t.text, strings.Repeat("\x00", len(t.text))
		}
	}
	t.exec = t.kind == "file" && r.IntN(2) == 0
	return t
}

// make makes the entry.
func (t thing) make(path, outside string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	at := unix.NsecToTimespec(t.at.UnixNano())
	mode := os.FileMode(0o600)
	if t.exec {
		mode = 0o2710
	}
	switch t.kind {
	case "dir":
		return errors.Join(err, os.MkdirAll(path, 0o711))
	case "fifo":
		return errors.Join(err, unix.Mkfifo(path, 0o666))
	case "white":
		return errors.Join(err, unix.Mknod(path, unix.S_IFCHR, 0))
	case "link":
		err = errors.Join(err, os.Symlink(t.text, path))
	case "file":
		err = errors.Join(err, os.WriteFile(path, []byte(t.text), 0o600), unix.Chmod(path, uint32(mode)))
	}
	if t.linked {
		f, err2 := os.CreateTemp(outside, "")
		err = errors.Join(err, err2, f.Close(), os.Remove(f.Name()), os.Link(path, f.Name()))
	}
	if t.hidden {
		err = errors.Join(err, unix.Lsetxattr(path, upfile.MetacopyAttr, nil, 0))
	}
	if t.shown != "" {
		err = errors.Join(err, unix.Lsetxattr(path, upfile.RedirectAttr, []byte("/elsewhere"), 0))
	}
	return errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
}

// layerTree reads a layer, without its directories. It checks that only units have empty ones.
func layerTree(t *testing.T, dir string) tree {
	t.Helper()
	got := make(tree)
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			if list, err := os.ReadDir(p); err != nil || len(list) == 0 && unitOf(rel) == "" {
				t.Errorf("%q is empty, %v", rel, err)
			}
		case e.Type() == fs.ModeSymlink:
			to, err := os.Readlink(p)
			got[rel] = thing{kind: "link", text: to, at: info.ModTime()}
			return err
		default:
			data, err := os.ReadFile(p)
			got[rel] = thing{kind: "file", text: string(data), exec: info.Mode()&0o111 != 0, at: info.ModTime()}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// inodes returns those of all that is below dir, but of directories.
func inodes(t *testing.T, dir string) map[uint64]string {
	t.Helper()
	got := make(map[uint64]string)
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := upfile.Stat(unix.AT_FDCWD, p)
		got[st.Ino] = p
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestModel publishes the random trees of workspaces that end in a random order, and compares each layer with the model,
// and merges of the layers with a lookup layer by layer.
func TestModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("the seed is %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 0))
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		b := newBench(t)
		m := &model{published: make(tree)}
		outside := b.mkdir("outside")
		clock := now
		for range 1 + r.IntN(8) {
			b.renew()
			// It wrote at any time until its end, also before others ended.
			up := grow(t, r, b.from, outside, now, clock.Add(time.Minute))
			clock = clock.Add(time.Minute)
			b.copy = r.IntN(2) == 0
			b.shown = func(rel string) (*os.File, error) {
				path := filepath.Join(b.dir, "shown")
				b.ok(os.WriteFile(path, []byte(up[rel].shown), 0o600))
				return os.Open(path)
			}
			res := b.collect(clock)
			want := m.collect(up, clock)
			got := layerTree(t, b.layers[0])
			compare(t, "layer", got, want)
			clean(t, b.layers[0])
			if res.Files != len(want) || res.Over {
				t.Errorf("%+v, want %d files", res, len(want))
			}
			old := inodes(t, b.from)
			maps.Copy(old, inodes(t, outside))
			for ino, path := range inodes(t, b.layers[0]) {
				if other := old[ino]; other != "" {
					t.Errorf("%q is %q", path, other)
				}
			}
			b.copy = true // again: nothing is new
			b.collect(clock.Add(time.Second))
			if again := layerTree(t, b.layers[0]); len(again) > 0 {
				t.Errorf("published again: %q", slices.Sorted(maps.Keys(again)))
			}
			b.layers = b.layers[1:]
			if t.Failed() {
				return
			}
		}
		want := make(tree)
		for rel, th := range m.published {
			if th.kind != "dir" {
				want[rel] = th
			}
		}
		// All at once, and a run of the top layers first.
		all, top, part := b.mkdir("all"), b.mkdir("top"), b.mkdir("part")
		n := r.IntN(len(b.layers) + 1)
		for _, u := range []struct {
			layers []string
			to     string
		}{{b.layers, all}, {b.layers[:n], part}, {append([]string{part}, b.layers[n:]...), top}} {
			_, err := Union(t.Context(), u.layers, u.to, uid, gid, "")
			b.ok(err)
			clean(t, u.to)
		}
		compare(t, "union", layerTree(t, all), want)
		compare(t, "union of a union", layerTree(t, top), want)
	}
}

func compare(t *testing.T, what string, got, want tree) {
	t.Helper()
	for rel, w := range want {
		if g, ok := got[rel]; !ok || g.kind != w.kind || g.text != w.text || g.exec != w.exec || g.kind == "file" && !g.at.Equal(w.at) {
			t.Errorf("%s: %q is %+v, want %+v", what, rel, g, w)
		}
	}
	for rel, g := range got {
		if _, ok := want[rel]; !ok {
			t.Errorf("%s: %q is %+v, want none", what, rel, g)
		}
	}
}
