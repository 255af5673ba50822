package verbs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testverbs"
	"github.com/helmdeck/repos/tests/wait"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

func TestManifests(t *testing.T) {
	t.Parallel()
	w := testverbs.New(t)
	url := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 10}).URL("r")
	create := func(name string) {
		t.Helper()
		if err := w.Create(t.Context(), name, map[string]string{"repo": url, "ref": "main"}); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(w.Root, "volumes")
	manifests := func() []string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	create("v")
	v := manifests()
	create(strings.Repeat("long", 60))
	want := manifests()
	recs, err := verbs.Rebuild(w.Root)
	if err != nil || len(recs) != 2 {
		t.Fatalf("Rebuild: %+v, %v", recs, err)
	}
	for _, rec := range recs {
		now, err := w.Get(rec.Name)
		if err != nil || !rec.CreatedAt.Equal(now.CreatedAt) || rec.Options["repo"] != url || rec.Options["ref"] != "main" {
			t.Errorf("%+v, want %+v, %v", rec, now, err)
		}
	}
	// An interrupted Create or Remove, and a running Create.
	create("gone")
	i := slices.IndexFunc(manifests(), func(path string) bool { return !slices.Contains(want, path) })
	gone := manifests()[i]
	data, err := os.ReadFile(gone)
	temp := filepath.Join(dir, ".tmp-123")
	if err := errors.Join(err, w.Remove(t.Context(), "gone"), os.WriteFile(gone, data, 0o600), os.WriteFile(temp, nil, 0o600), os.Remove(v[0])); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := manifests(); !slices.Equal(got, want) {
			t.Errorf("manifests %q, want %q", got, want)
		}
		if _, err := os.Lstat(temp); err != nil {
			t.Errorf("a running Create has lost its manifest: %v", err)
		}
	}
	// At the start of the plugin, no Create is running.
	if _, err := verbs.New(verbs.Config{Root: w.Root}, meta.State{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there after a start: %v", temp, err)
	}
	// An unreadable manifest may be all that is left of a volume: it stays, and the others
	// are read.
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("Sweep: %v, want an error about %s", err, broken)
	}
	if _, err := os.Lstat(broken); err != nil {
		t.Error(err)
	}
	if recs, err := verbs.Rebuild(w.Root); len(recs) != 2 || err == nil {
		t.Errorf("Rebuild: %+v, %v; want two volumes and an error", recs, err)
	}
}

// TestFailedCreateEndsItsFetch checks that the fetch of a Create that fails does not go on.
func TestFailedCreateEndsItsFetch(t *testing.T) {
	t.Parallel()
	w := testverbs.New(t)
	server := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 10})
	gate := gitserver.NewGate()
	defer close(gate.Open)
	server.Wrap(gitserver.On(gitserver.Fetch, gate.Fault))
	dir := filepath.Join(w.Root, "volumes") // a file in its place takes no manifest
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := w.Create(t.Context(), "v", map[string]string{"repo": server.URL("r"), "ref": "main"}); err == nil {
		t.Fatal("Create succeeded")
	}
	wait.For(t, "the end of the fetch", func() error {
		return wait.Check(!(&world{World: w}).prefetching() && w.Work.Shared() == 0, "%d pieces of shared work", w.Work.Shared())
	})
}
