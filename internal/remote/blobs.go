package remote

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitindex"
)

// BringBlobs brings what a checkout of commit needs into a store without blobs:
// in one request, by the uid that fetches, for nothing else may talk to the
// remote. Other stores have it.
func (m *Remote) BringBlobs(ctx context.Context, s Source, commit string, cone gitindex.Cone) error {
	if !s.History.NoBlobs {
		return nil
	}
	unlock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	dir := m.StoreDir(s.History.Name())
	missing, err := m.Git.MissingBlobs(ctx, dir, commit, cone)
	if err != nil || len(missing) == 0 {
		return err
	}
	progress, end := m.Doing.Begin(ctx, "fetching files", s.URL.String())
	defer end()
	defer m.Measure(s.History.Name())
	err = m.Git.FetchObjects(ctx, git.Fetch{
		Store: dir, Remote: m.at(s), NoBlobs: true, Progress: progress,
	}, missing)
	if git.KindOf(err) == git.KindRefNotFound {
		// Over protocol 0 a remote gives what it has advertised, unless it is told
		// otherwise.
		return fmt.Errorf("the remote gave the history without files, and refuses the files: use filter=none: %w", err)
	}
	return err
}
