package clone

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitindex"
)

// cone returns the part of a commit that s checks out.
func (s Spec) cone() gitindex.Cone { return gitindex.Cone(s.Files.Sparse.Dirs()) }

// bringBlobs brings what a checkout of commit needs into a store without blobs:
// in one request, by the uid that fetches, for nothing else may talk to the
// remote. Other stores have it.
func (c *Clone) bringBlobs(ctx context.Context, s Spec, commit string) error {
	if !s.History.NoBlobs {
		return nil
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	dir := c.storeDir(s.History.Name())
	missing, err := c.m.Git.MissingBlobs(ctx, dir, commit, s.cone())
	if err != nil || len(missing) == 0 {
		return err
	}
	progress, end := c.doing.Begin(ctx, "fetching files", s.URL.String())
	defer end()
	defer c.measureSoon(s.History.Name())
	err = c.m.Git.FetchObjects(ctx, git.Fetch{
		Store: dir, Remote: c.remote(s), NoBlobs: true, Progress: progress,
	}, missing)
	if git.KindOf(err) == git.KindRefNotFound {
		// Over protocol 0 a remote gives what it has advertised, unless it is told
		// otherwise.
		return fmt.Errorf("the remote gave the history without files, and refuses the files: use filter=none: %w", err)
	}
	return err
}
