package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// makefile builds into the directory build, which is warm, and prints each file that it
// makes.
const makefile = `OBJECTS := $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))

build/program: $(OBJECTS)
	@cat $^ > $@

build/%.o: src/%.c src/common.h
	@mkdir -p build
	@echo $@
	@cat $^ > $@
`

// built runs make in a workspace, checks its result, and returns the names of the files
// that were made.
func built(t *testing.T, dir string) []string {
	t.Helper()
	cmd := exec.Command("make", "--no-print-directory")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	sources, err := filepath.Glob(filepath.Join(dir, "src/*.c"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	var newest time.Time
	for _, path := range sources {
		for _, path := range []string{path, filepath.Join(dir, "src/common.h")} {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want.Write(data)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
	}
	wantFile(t, dir, "build/program", want.String())
	// The time of a file of the next update may be set back by two seconds. So the update
	// waits until the newest source is two seconds old, and the outputs get that source's
	// time. The newest source mostly was set back too.
	wait.For(t, "the next update to be newer", func() error { return wait.Check(time.Since(newest) > 2*time.Second, "%v passed", time.Since(newest)) })
	outputs, err := filepath.Glob(filepath.Join(dir, "build/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range outputs {
		if err := os.Chtimes(path, newest, newest); err != nil {
			t.Fatal(err)
		}
	}
	made := []string{}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "build/"); ok {
			made = append(made, strings.TrimSuffix(name, ".o"))
		}
	}
	slices.Sort(made)
	return made
}

// makeNames are the sources of a making, besides a header.
var makeNames = []string{"a", "b", "c", "d", "e"}

// making is a repository whose workspaces have a warm directory in which make works.
type making struct {
	*world
	n int
}

func newMaking(t *testing.T) *making {
	t.Helper()
	m := &making{world: newCheckpointWorld(t)}
	changes := []gitserver.Change{{Path: "Makefile", Content: makefile}, {Path: "src/common.h", Content: "common\n"}}
	for _, name := range makeNames {
		changes = append(changes, source(name, 0))
	}
	m.commit(changes...)
	if got := m.run(); !slices.Equal(got, makeNames) {
		t.Fatalf("made %q at first, want %q", got, makeNames)
	}
	return m
}

func source(name string, version int) gitserver.Change {
	return gitserver.Change{Path: "src/" + name + ".c", Content: fmt.Sprintf("%s, version %d\n", name, version)}
}

func (m *making) commit(changes ...gitserver.Change) {
	m.t.Helper()
	if _, err := gitserver.Commit(m.server.Path("r"), "main", changes...); err != nil {
		m.t.Fatal(err)
	}
}

var makeOptions = []string{"warm", "build", "refresh", "always"}

// run runs make in a new workspace, and returns the names of the files that were made.
func (m *making) run() []string {
	m.t.Helper()
	m.n++
	id := fmt.Sprint(m.n)
	_, dir := m.open("v", id, makeOptions...)
	made := built(m.t, dir)
	if got := testgit.GitAny(m.t, dir, "diff-files", "--name-only"); got != "" {
		m.t.Errorf("lstat says that these have changed: %q", got)
	}
	m.end("v", id)
	return made
}

// chain returns how many layers the tree of a new workspace has.
func (m *making) chain() int {
	r := m.request("v", "chain", makeOptions...)
	defer r.Checkout.Release()
	return len(r.Checkout.Tree.Chain)
}

// TestMake: in a new workspace with a warm directory, make makes only the files whose sources
// an update changed, also after a chain was flattened.
func TestMake(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	m := newMaking(t)
	for i := 1; i <= 20; i++ {
		name := makeNames[i%len(makeNames)]
		m.commit(source(name, i))
		if got := m.run(); !slices.Equal(got, []string{name}) {
			t.Errorf("update %d: made %q, want only %q", i, got, name)
		}
		if i+1 != 16 {
			continue
		}
		wait.For(t, "a flat tree", func() error { return wait.Equal(m.chain(), 1) })
		if got := m.run(); len(got) > 0 {
			t.Errorf("after update %d the chain was flattened: made %q, want nothing", i, got)
		}
	}
	if got := m.chain(); got != 6 {
		t.Errorf("%d layers, want those of 5 updates on the flat tree", got)
	}
}

// TestMakeAfterAttributes is TestMake for changes of attributes, which make trees be built whole.
func TestMakeAfterAttributes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	m := newMaking(t)
	m.commit(source("a", 1))
	if got := m.run(); !slices.Equal(got, []string{"a"}) || m.chain() != 2 {
		t.Fatalf("made %q, and the tree has %d layers, want a and 2", got, m.chain())
	}
	for _, tt := range []struct {
		name    string
		changes []gitserver.Change
		want    []string
	}{
		{"attributes that change no file", []gitserver.Change{{Path: ".gitattributes", Content: "*.png -text\n"}}, []string{}},
		{"attributes and a file", []gitserver.Change{{Path: "src/.gitattributes", Content: "*.c diff=cpp\n"}, source("b", 100)}, []string{"b"}},
		{"attributes that change a file's bytes", []gitserver.Change{{Path: ".gitattributes", Content: "src/c.c text eol=crlf\n"}}, []string{"c"}},
		{"attributes that encode a file", []gitserver.Change{{Path: ".gitattributes", Content: "src/c.c text eol=crlf\nsrc/d.c working-tree-encoding=UTF-16LE\n"}}, []string{"d"}},
		{"attributes that encode it in as many bytes", []gitserver.Change{{Path: ".gitattributes", Content: "src/c.c text eol=crlf\nsrc/d.c working-tree-encoding=UTF-16BE\n"}}, []string{"d"}},
		{"no attributes any more", []gitserver.Change{{Path: ".gitattributes", Delete: true}}, []string{"c", "d"}},
		{"a header", []gitserver.Change{{Path: "src/.gitattributes", Delete: true}, {Path: "src/common.h", Content: "other\n"}}, makeNames},
	} {
		m.commit(tt.changes...)
		if got := m.run(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: made %q, want %q", tt.name, got, tt.want)
		}
		if got := m.chain(); got != 1 {
			t.Errorf("%s: %d layers, want a tree that was built whole", tt.name, got)
		}
	}
}
