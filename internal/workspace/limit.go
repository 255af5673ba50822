package workspace

import (
	"errors"
	"fmt"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// putNew is put for a new workspace, whose record gets a project that no other one has, if it has a limit.
func (m *Manager) putNew(w *workspace, rec *meta.Workspace) error {
	var err error
	if rec.Limit != (disk.Size{}) {
		m.projects.Lock()
		defer m.projects.Unlock()
		if rec.Project, err = m.config.Projects.Take(m.projectsInUse()); err != nil {
			return err
		}
	}
	making := *rec
	making.Phase, making.Leases = meta.Making, nil
	m.records.put(w, making) // before its directory: the sweep leaves it alone
	return nil
}

// projectsInUse returns the IDs that workspaces have.
func (m *Manager) projectsInUse() map[uint32]bool {
	used := make(map[uint32]bool)
	m.records.each(func(w *workspace) {
		if w.rec.Project != 0 {
			used[w.rec.Project] = true
		}
	})
	return used
}

// Use returns what a workspace with a limit holds: one system call.
func (m *Manager) Use(rec meta.Workspace) (disk.Size, error) {
	if rec.Project == 0 {
		return disk.Size{}, fmt.Errorf("workspace %s has no limit", rec.ID)
	}
	return m.config.Projects.Use(rec.Project)
}

// sweepProjects sets the limits of mounted workspaces again, because a mount that a crash ended may have lifted one, and
// removes those of projects that no workspace has.
func (m *Manager) sweepProjects() error {
	if m.config.Projects.Supported() != nil {
		return nil
	}
	err := m.dropProjects()
	var limited []*workspace
	m.records.each(func(w *workspace) {
		if w.rec.Project != 0 {
			limited = append(limited, w)
		}
	})
	for _, w := range limited {
		err = errors.Join(err, m.limitAgain(w))
	}
	return err
}

// dropProjects removes the limits of projects that no workspace has.
func (m *Manager) dropProjects() error {
	m.projects.Lock() // a new workspace has its project before it has a limit
	defer m.projects.Unlock()
	ids, err := m.config.Projects.Records()
	errs := []error{err}
	used := m.projectsInUse()
	for _, id := range ids {
		if !used[id] {
			errs = append(errs, m.config.Projects.Limit(id, disk.Size{}))
		}
	}
	return errors.Join(errs...)
}

// limitAgain sets the limit of a workspace if it is mounted. It can't end meanwhile: whoever ends it lifts the limit after
// its record has changed.
func (m *Manager) limitAgain(w *workspace) error {
	rec, unlock, err := m.records.begin(w)
	if err != nil {
		return nil // it was removed
	}
	defer unlock()
	if rec.Phase != meta.Mounted {
		return nil
	}
	return m.config.Projects.Limit(rec.Project, rec.Limit)
}
