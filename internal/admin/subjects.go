package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/janitor"
)

func (c Config) listSubjects(r *http.Request) (any, error) {
	subjects, _, err := c.subjects(r.Context())
	if err != nil {
		return nil, err
	}
	return page(r, "subjects", subjects, func(s api.Subject) string { return s.Name }, columns[api.Subject]{
		"subject": func(s api.Subject) string { return s.Name },
	})
}

func (c Config) subject(r *http.Request) (any, error) {
	subjects, _, err := c.subjects(r.Context())
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	i, ok := slices.BinarySearchFunc(subjects, name, func(s api.Subject, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return nil, notFound("subject %q has no volume, no clone and no limits of its own", name)
	}
	return subjects[i], nil
}

// subjects returns all subjects, in the order of their names, and the janitor's view from
// which it counted.
func (c Config) subjects(ctx context.Context) ([]api.Subject, janitor.Holdings, error) {
	clones, h, err := c.holdings(ctx, janitor.Choice{})
	if err != nil {
		return nil, h, err
	}
	byDir := make(map[string]*api.Subject)
	// of returns the subject with a directory. The name is in a record that belongs to it.
	of := func(dir, name string) *api.Subject {
		s := byDir[dir]
		if s == nil {
			s = &api.Subject{Name: name, Dir: dir}
			byDir[dir] = s
		}
		return s
	}
	for _, clone := range clones {
		s := of(subjectOf(clone.Clone), clone.Subject)
		s.Clones++
		s.Size, s.Classes, s.Used = s.Size.Add(clone.Size), s.Classes.Add(clone.Classes), later(s.Used, clone.Used)
	}
	for _, v := range c.Volumes.List() {
		of(v.Options.Subject.Dir(), string(v.Options.Subject)).Volumes++
	}
	for _, w := range c.Workspaces.Workspaces() {
		s := of(subjectOf(w.Clone), subjectName(w))
		if w.Phase == meta.Checkpoint {
			s.Checkpoints++
		} else {
			s.Workspaces++
		}
		if w.Phase.Live() {
			s.WorkspaceLimits += w.Limit.Bytes
		}
	}
	for _, l := range c.leases() {
		of(subjectOf(l.Clone), l.Subject).Leases++
	}
	for _, own := range c.Limits.List() {
		of(volume.Subject(own.Name).Dir(), own.Name)
	}
	subjects := make([]api.Subject, 0, len(byDir))
	for _, s := range byDir {
		s.Limits = c.limitsOf(s.Name)
		subjects = append(subjects, *s)
	}
	slices.SortFunc(subjects, func(a, b api.Subject) int { return strings.Compare(a.Name, b.Name) })
	return subjects, h, nil
}

// subjectName returns the subject of a workspace: that of its options, or the directory of
// its clone if they are lost.
func subjectName(w meta.Workspace) string {
	if name := w.Options["subject"]; name != "" && volume.Subject(name).Dir() == subjectOf(w.Clone) {
		return name
	}
	return subjectOf(w.Clone)
}
