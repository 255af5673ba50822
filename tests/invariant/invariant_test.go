package invariant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/wait"
)

// scene is the data directory of a killed plugin, with a leased workspace and a checkpoint.
type scene struct {
	*testing.T
	data string
	d    *daemon.Daemon
}

func newScene(t *testing.T) *scene {
	t.Helper()
	base := testdir.New(t, "invariant")
	s := &scene{T: t, data: filepath.Join(base, "disk", "data")}
	t.Cleanup(func() {
		if s.d != nil {
			_ = s.d.Kill()
		}
		if err := testdisk.Eject(t, filepath.Join(base, "disk")); err != nil {
			t.Error(err)
		}
	})
	s.must(testdisk.Ext4(filepath.Join(base, "disk"), 128<<20), os.Mkdir(filepath.Join(base, "repos"), 0o755))
	program, err := daemon.Build(base)
	s.must(err)
	server, err := gitserver.Start(filepath.Join(base, "repos"))
	s.must(err)
	defer server.Close()
	_, err = gitserver.Generate(server.Path("r"), gitserver.Spec{Seed: 1, Files: 5, Commits: 1, Changes: 1})
	s.must(err)
	s.d, err = daemon.Start(t, daemon.Config{Program: program, Dir: base, Data: s.data})
	s.must(err)
	for _, name := range []string{"leased", "done"} {
		s.must(s.d.Create(t.Context(), name, map[string]string{"repo": server.URL("r")}))
		dir, err := s.d.Mount(t.Context(), name, "id")
		s.must(err, os.WriteFile(filepath.Join(dir, "mine"), []byte(name), 0o644))
	}
	s.must(s.d.Unmount(t.Context(), "done", "id"))
	s.must(wait.Until(t, func() error { return Structure(s.data) }), Content(s.data))
	if err := Leaks(s.data); err == nil {
		t.Error("Leaks does not find the running plugin")
	}
	s.must(s.d.Kill())
	s.d = nil
	s.must(Structure(s.data), wait.Until(t, func() error { return Leaks(s.data) }))
	return s
}

func (s *scene) must(errs ...error) {
	s.Helper()
	for _, err := range errs {
		if err != nil {
			s.Fatal(err)
		}
	}
}

// first returns the first path that matches.
func (s *scene) first(pattern string) string {
	s.Helper()
	paths, err := filepath.Glob(filepath.Join(s.data, pattern))
	if err != nil || len(paths) == 0 {
		s.Fatalf("%s: %q, %v", pattern, paths, err)
	}
	return paths[0]
}

// workspace returns the directory of a workspace in a phase.
func (s *scene) workspace(phase meta.Phase) string {
	s.Helper()
	all, err := State(s.data)
	s.must(err)
	for _, w := range all.Workspaces {
		if w.Phase == phase {
			return filepath.Join(s.data, "clones", w.Clone, "workspaces", w.ID)
		}
	}
	s.Fatalf("no workspace in phase %q", phase)
	return ""
}

// TestInvariants breaks the invariants one after the other, checks that each violation is found,
// and repairs it.
func TestInvariants(t *testing.T) {
	s := newScene(t)
	aside := filepath.Join(filepath.Dir(s.data), "aside")
	lose := func(path string) func() func() error {
		return func() func() error {
			s.must(os.Rename(path, aside))
			return func() error { return os.Rename(aside, path) }
		}
	}
	add := func(path string) func() func() error {
		return func() func() error {
			s.must(os.Mkdir(path, 0o755))
			return func() error { return os.Remove(path) }
		}
	}
	write := func(path, text string) func() func() error {
		return func() func() error {
			before, err := os.ReadFile(path)
			s.must(err, os.WriteFile(path, []byte(text), 0o644))
			return func() error { return os.WriteFile(path, before, 0o644) }
		}
	}
	clone, tree := s.first("clones/default/*"), s.first("clones/default/*/trees/*")
	checkpoint := s.workspace(meta.Checkpoint)
	for _, c := range []struct {
		name, want string
		check      func(string) error
		damage     func() (repair func() error)
	}{
		{"volume without a manifest", "has no manifest", Structure, lose(s.first("volumes/*.json"))},
		{"store without a record", "has no record", Structure, add(filepath.Join(clone, "store/depth-1.git"))},
		{"lost store", "is missing", Structure, lose(filepath.Join(clone, "store/full.git"))},
		{"killed fetch", "was left by a git", Structure, add(filepath.Join(clone, "store/full.git/objects/pack/tmp_pack_1"))},
		{"tree without a record", "has no record", Structure, add(filepath.Join(clone, "trees/.tmp-1"))},
		{"lost tree", "which is gone", Structure, lose(tree)},
		{"lost git layer", "which is gone", Structure, lose(s.first("clones/default/*/refs/*"))},
		{"lost clone", "has no directory", Structure, lose(filepath.Dir(clone))},
		{"clone without a record", "has no record", Structure, add(filepath.Join(s.data, "clones/default/0123456789abcdef"))},
		{"empty subject", "is empty", Structure, add(filepath.Join(s.data, "clones/nobody"))},
		{"unknown directory", "does not belong in a clone", Structure, add(filepath.Join(clone, "x"))},
		{"workspace without a record", "has no record", Structure, add(filepath.Join(clone, "workspaces/0123456789abcdef"))},
		{"lost checkpoint", "is missing", Structure, lose(checkpoint)},
		{"full trash", "the trash has 1 entries", Structure, add(filepath.Join(s.data, "trash/x"))},
		{"temporary name", "has a temporary name", Structure, add(filepath.Join(s.data, ".tmp-x"))},
		{"changed file", "files differ", Content, write(filepath.Join(tree, "README.md"), "another\n")},
		{"additional file", "files differ", Content, addFile(filepath.Join(tree, "more"))},
		{"lost pack", "rev-list", Content, lose(s.first("clones/default/*/store/full.git/objects/pack/*.pack"))},
		{"lost pack of a git layer", "rev-list", Content, lose(s.first("clones/default/*/refs/*/git/.git/objects/pack/*.pack"))},
		{"lease without a mount", "is mounted 0 times", Structure, func() func() error {
			s.must(testdir.DetachBelow(filepath.Join(s.data, "mnt")))
			return func() error { return nil } // this is the last case, so that nothing needs the mount again
		}},
	} {
		if err := c.check(s.data); err != nil {
			t.Fatalf("before %s: %v", c.name, err)
		}
		repair := c.damage()
		if err := c.check(s.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
		s.must(repair())
	}
}

// addFile creates an empty file.
func addFile(path string) func() func() error {
	return func() func() error {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return func() error { return err }
		}
		return func() error { return os.Remove(path) }
	}
}
