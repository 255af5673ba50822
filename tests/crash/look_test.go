package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/api"
)

func init() {
	prepare := func(w *world) {
		w.must(w.create("looked"), w.mount("looked", "l1"))
		dir := w.leases[lease{"looked", "l1"}].dir
		dir = filepath.Join(dir, aside)
		w.must(os.Mkdir(dir, 0o755))
		w.must(os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.o\n"), 0o644), os.WriteFile(filepath.Join(dir, "new.o"), nil, 0o644))
	}
	scenarios = append(scenarios, scenario{
		name: "diff", prepare: prepare, do: func(w *world) error { return w.lookAt("looked", w.patch) },
		points: []string{"changes/repository/made", "changes/ignore/copied", "changes/repository/made:2", "changes/diff/copied"},
	}, scenario{
		name: "archive", prepare: prepare, do: func(w *world) error { return w.lookAt("looked", w.archive) },
		points: []string{"changes/tar/file"},
	})
}

// lookAt looks at the only workspace of a volume. Nothing of that is left in the quarantine.
func (w *world) lookAt(volume string, look func(id string) error) error {
	left, err := os.ReadDir(w.path("quarantine"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("left in the quarantine: %v", left)
	}
	id, err2 := w.workspace(volume)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	return look(id)
}

func (w *world) patch(id string) error {
	var b strings.Builder
	err := w.d.Admin.WorkspaceDiff(context.Background(), id, api.Compare{}, &b)
	if err == nil && (!strings.Contains(b.String(), "+++ b/"+aside+"/.gitignore") || strings.Contains(b.String(), "new.o")) {
		err = fmt.Errorf("the patch is %.400q", b.String())
	}
	return err
}

func (w *world) archive(id string) error {
	var b strings.Builder
	err := w.d.Admin.WorkspaceChanges(context.Background(), id, api.Compare{}, &b)
	if err == nil && !strings.HasPrefix(b.String(), ".helmdeck-export/deleted") {
		err = fmt.Errorf("the archive begins with %.100q", b.String())
	}
	return err
}
