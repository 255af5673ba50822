package mounter

import (
	"context"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// assign makes the two directories that a container writes to a project, if the workspace has a limit. The kernel
// renames from one to the other. What the plugin writes beside them does not count. They have the project already,
// unless they are new, or a copy.
func (m *Mounter) assign(ctx context.Context, rec meta.Workspace) error {
	if rec.Limit == (disk.Size{}) {
		return nil
	}
	if id, err := m.config.Projects.Of(m.Upper(rec)); err != nil || id == rec.Project {
		return err
	}
	if err := m.config.Projects.Move(ctx, m.work(rec), rec.Project); err != nil {
		return err
	}
	return m.config.Projects.MoveUpper(ctx, m.Upper(rec), m.work(rec), rec.Project)
}

// limit sets the most that a workspace with a project may hold; zero for no limit.
func (m *Mounter) limit(rec meta.Workspace, most disk.Size) error {
	if rec.Project == 0 || most == (disk.Size{}) && m.config.Projects.Supported() != nil { // then nothing has a limit
		return nil
	}
	return m.config.Projects.Limit(rec.Project, most)
}

// Unlimit removes the limit of a workspace that is being removed. Its project can be another one's when all its files
// are deleted.
func (m *Mounter) Unlimit(rec meta.Workspace) error { return m.limit(rec, disk.Size{}) }
