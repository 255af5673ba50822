package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/api"
)

// largeCheckpoints makes workspaces of two subjects with many changed files. The attack copies them without keeping the copies,
// while directories are renamed, so that the second pass has work. A third subject begins copies and leaves them.
func largeCheckpoints(b *battle) (func(ctx context.Context), error) {
	const changed = 20_000
	var ids, dirs []string
	for n := range 4 {
		dir, id, err := b.workspace(fmt.Sprint("copied-", n%2), b.server)
		if err != nil {
			return nil, err
		}
		for i := range changed {
			below := filepath.Join(dir, "a", fmt.Sprint(i/1000))
			if i%1000 == 0 {
				err = os.MkdirAll(below, 0o755)
			}
			if err == nil {
				err = os.WriteFile(fmt.Sprintf("%s/%s%d", below, strings.Repeat("n", 50), i), []byte("x"), 0o644)
			}
			if err != nil {
				return nil, err
			}
		}
		ids, dirs = append(ids, id), append(dirs, dir)
	}
	_, left, err := b.workspace("copied-left", b.server)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		loop(ctx, len(ids)+1, func(ctx context.Context, i int) {
			if i == len(ids) {
				if _, err := b.plugin.Admin.Draft(ctx, left, api.Note{}); err != nil { // else it says nothing of the others
					b.note("left", err)
				}
				return
			}
			d, err := b.plugin.Admin.Draft(ctx, ids[i], api.Note{})
			if err == nil {
				err = os.Rename(filepath.Join(dirs[i], "a/1"), filepath.Join(dirs[i], "a/b"))
			}
			if err == nil {
				_, err = b.plugin.Admin.CatchUp(ctx, d.ID)
			}
			_ = os.Rename(filepath.Join(dirs[i], "a/b"), filepath.Join(dirs[i], "a/1")) // there may be none
			if d.ID != "" {
				_ = b.plugin.Admin.DropDraft(ctx, d.ID) // it expires else
			}
			b.note("checkpoint", err)
		})
	}, nil
}
