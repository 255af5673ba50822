package caches

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cacheTree has the files and links of a cache, by path, with what they have.
type cacheTree map[string]string

// tree returns what the container sees in its cache, without what the plugin puts there.
func (c container) tree() (cacheTree, error) {
	got, top := make(cacheTree), filepath.Join(c.dir, ".git/hdcache")
	err := filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(name, top+"/")
		switch {
		case rel == "env" || rel == "CACHEDIR.TAG":
		case e.Type() == fs.ModeSymlink:
			got[rel], err = os.Readlink(name)
			got[rel] = "-> " + got[rel]
		case e.Type() == fs.ModeNamedPipe:
			got[rel] = "a FIFO"
		default:
			var data []byte
			data, err = os.ReadFile(name)
			got[rel] = string(data)
		}
		return err
	})
	return got, err
}

// writer writes and deletes at random in the cache of a container, and knows what is there.
type writer struct {
	container
	*rand.Rand
	name  string
	clock time.Time // of its next file, at which no other writer wrote
	sees  cacheTree
	wrote map[string]time.Time // what it wrote, and is there
}

// kinds are what a writer may write to: some names are those of other writers, too.
var kinds = []struct {
	pattern string // with a number
	most    int
	kind    string
}{
	{"npm/_cacache/content-v2/%d", 60, "content"},
	{"npm/_cacache/content-v2/new\nline\xff-%d", 5, "content"},
	{"npm/_cacache/index-v5/a/%d", 10, "index"},
	{"mine/d/%d", 10, "index"}, // as of a tool that is not in the table, whose later files replace earlier ones
	{"nuget/package/%d", 20, "unit"},
	{"nuget/half/%d", 5, "half"},
	{"npm/_logs/%d", 5, "never"},
	{"cargo/credentials.toml%.0d", 1, "never"},
	{"mine/%d.lock", 3, "never"},
}

func kindOf(rel string) string {
	for _, k := range kinds {
		dir, _, _ := strings.Cut(k.pattern, "%")
		if strings.HasPrefix(rel, dir) && (dir != "mine/" || strings.HasSuffix(rel, ".lock")) {
			return k.kind
		}
	}
	return ""
}

// unitOf returns the directory of a file that is published as a whole.
func unitOf(rel string) string { return strings.Join(strings.Split(rel, "/")[:3], "/") }

// put writes a file of its own, in place of another.
func (w *writer) put(rel string) error {
	at := filepath.Join(w.dir, ".git/hdcache", rel)
	text := fmt.Sprintf("%s of %s", rel, w.name)
	if kindOf(rel) == "content" {
		text = rel // as the name says
	}
	w.clock = w.clock.Add(time.Microsecond)
	w.sees[rel], w.wrote[rel] = text, w.clock
	return errors.Join(makeRoom(at), os.WriteFile(at, []byte(text), 0o644), os.Chtimes(at, w.clock, w.clock))
}

// makeRoom removes what is where a file is to be, and makes its directory.
func makeRoom(at string) error {
	return errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755))
}

// remove removes a file, or a directory with all that is in it.
func (w *writer) remove(rel string) error {
	for known := range w.sees {
		if known == rel || strings.HasPrefix(known, rel+"/") {
			delete(w.sees, known)
			delete(w.wrote, known)
		}
	}
	return os.RemoveAll(filepath.Join(w.dir, ".git/hdcache", rel))
}

// step does one thing.
func (w *writer) step() error {
	k := kinds[w.IntN(len(kinds))]
	rel := fmt.Sprintf(k.pattern, w.IntN(k.most))
	at := filepath.Join(w.dir, ".git/hdcache", rel)
	known := slices.Sorted(maps.Keys(w.sees))
	switch w.IntN(8) {
	case 0:
		if len(known) == 0 {
			return nil
		}
		rel := known[w.IntN(len(known))]
		for range w.IntN(3) { // something that it is in
			if dir := path.Dir(rel); dir != "." {
				rel = dir
			}
		}
		return w.remove(rel)
	case 1:
		if k.kind != "content" {
			return nil
		}
		text := "to " + w.name
		w.sees[rel], w.wrote[rel] = "-> "+text, w.clock
		return errors.Join(makeRoom(at), os.Symlink(text, at))
	case 2:
		// Files that have other names, or get one, as a store and what is installed from it.
		from := known[:0:0]
		for _, name := range known {
			if kindOf(name) == "content" && name != rel && !strings.HasPrefix(w.sees[name], "->") {
				from = append(from, name)
			}
		}
		if k.kind != "content" || len(from) == 0 {
			return nil
		}
		old := from[w.IntN(len(from))]
		was := filepath.Join(w.dir, ".git/hdcache", old)
		if err := makeRoom(at); err != nil {
			return err
		}
		w.sees[rel], w.wrote[rel] = w.sees[old], w.clock
		if w.IntN(2) == 0 {
			return os.Link(was, at)
		}
		delete(w.sees, old)
		delete(w.wrote, old)
		return os.Rename(was, at)
	case 3:
		if k.kind != "never" {
			return nil
		}
		w.sees[rel] = "a FIFO"
		return errors.Join(makeRoom(at), unix.Mkfifo(at, 0o644))
	}
	if k.kind != "unit" && k.kind != "half" {
		return w.put(rel)
	}
	err := errors.Join(w.remove(rel), w.put(rel+"/a"), w.put(rel+"/lib/b"))
	if k.kind == "unit" {
		err = errors.Join(err, w.put(rel+"/.nupkg.metadata"))
	}
	return err
}

// TestTenTrees: containers write and delete at random at once. Each sees its own files, and what was published before. Then they end
// in any order, at once, and the next one sees what each of them finished, whole.
func TestTenTrees(t *testing.T) {
	t.Parallel()
	t.Logf("-rounds %d -seed %d", *rounds, *seed)
	rounds := 5 * *rounds
	if testing.Short() {
		rounds = 2
	}
	w := newWorld(t)
	published, writtenAt := make(cacheTree), make(map[string]time.Time)
	begun := time.Now().Add(-time.Hour)
	for round := range rounds {
		writers := make([]*writer, many)
		var all sync.WaitGroup
		for i := range writers {
			writers[i] = &writer{
				container: w.start(), Rand: rand.New(rand.NewPCG(*seed, uint64(round*many+i))), name: fmt.Sprintf("container %d in round %d", i, round),
				clock: begun.Add(time.Duration(round*many+i) * time.Second), sees: maps.Clone(published), wrote: make(map[string]time.Time),
			}
		}
		for _, of := range writers {
			all.Go(func() {
				for range 60 {
					if err := of.step(); err != nil {
						t.Errorf("%s: %v", of.name, err)
						return
					}
				}
			})
		}
		all.Wait()
		for _, of := range writers {
			got, err := of.tree()
			if err != nil {
				t.Error(err)
			}
			if !maps.Equal(got, of.sees) {
				t.Errorf("%s sees\n%q, want\n%q", of.name, got, of.sees)
			}
		}
		if t.Failed() {
			return
		}
		for _, i := range rand.New(rand.NewPCG(*seed, uint64(round))).Perm(many) {
			all.Go(func() {
				if err := writers[i].unmount(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.published()
		next := w.start("publish", "never")
		got, err := next.tree()
		if err != nil {
			t.Error(err)
		}
		check(t, published, got, writtenAt, writers)
		next.end()
		published = got
		if t.Failed() {
			return
		}
	}
}

// check compares what is published now with what was before, and what the writers left. writtenAt is when the index was written that
// is published.
func check(t *testing.T, before, got cacheTree, writtenAt map[string]time.Time, writers []*writer) {
	t.Helper()
	may := make(map[string][]string) // what the files may have that were not there before
	for _, of := range writers {
		for rel, at := range of.wrote {
			text, kind := of.sees[rel], kindOf(rel)
			_, old := before[rel]
			switch {
			case kind == "index":
				if at.After(writtenAt[rel]) {
					may[rel], writtenAt[rel] = []string{text}, at
				}
			case kind == "content" && !old, kind == "unit" && before[unitOf(rel)+"/.nupkg.metadata"] == "" && of.sees[unitOf(rel)+"/.nupkg.metadata"] != "":
				may[rel] = append(may[rel], text)
			}
		}
	}
	for rel, text := range before {
		if may[rel] == nil {
			may[rel] = []string{text}
		}
	}
	for rel, texts := range may {
		if !slices.Contains(texts, got[rel]) && kindOf(rel) != "unit" {
			t.Errorf("published in %q: %q, want one of %q", rel, got[rel], texts)
		}
	}
	units := make(map[string]cacheTree)
	for rel, text := range got {
		if may[rel] == nil {
			t.Errorf("published in %q: %q, want nothing", rel, text)
		}
		if kindOf(rel) == "unit" {
			units[unitOf(rel)] = in(got, unitOf(rel))
		}
	}
	for rel := range may {
		if kindOf(rel) == "unit" && units[unitOf(rel)] == nil {
			t.Errorf("%q is not published", unitOf(rel))
		}
	}
	for unit, has := range units {
		old := in(before, unit)
		if !maps.Equal(has, old) && (len(old) > 0 || !slices.ContainsFunc(writers, func(w *writer) bool { return maps.Equal(has, in(w.sees, unit)) })) {
			t.Errorf("%s is not that of one container: %q", unit, has)
		}
	}
}

// in returns the part of a tree that is in a directory.
func in(tree cacheTree, dir string) cacheTree {
	part := maps.Clone(tree)
	maps.DeleteFunc(part, func(rel, _ string) bool { return !strings.HasPrefix(rel, dir+"/") })
	return part
}
