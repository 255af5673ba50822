package place

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestAll(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "data [1]") // no pattern
	if list, err := All(root, "."); err != nil || len(list) != 0 {
		t.Errorf("without clones: %v, %v", list, err)
	}
	for _, dir := range []string{Workspace(root, "a/1", "w"), Workspace(root, "a/1", "v"), filepath.Join(Clone(root, "b/2"), Trees, "t"), Clone(root, "c")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]Found{
		".":               {{"a/1", Clone(root, "a/1")}, {"b/2", Clone(root, "b/2")}},
		Workspaces + "/*": {{"a/1", Workspace(root, "a/1", "v")}, {"a/1", Workspace(root, "a/1", "w")}},
		Trees:             {{"b/2", filepath.Join(root, "clones/b/2/trees")}},
		Stores + "/*.git": {},
	} {
		if got, err := All(root, pattern); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", pattern, got, err, want)
		}
	}
}
