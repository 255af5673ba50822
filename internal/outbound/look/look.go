package look

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
)

// View is an open workspace.
type View struct {
	// Record is that of the workspace when it was opened. It must not be changed.
	Record meta.Workspace
	// Merged is the root of the files as a container sees them, except for the cache (O_PATH).
	// If the workspace is mounted, containers write to it meanwhile.
	Merged *os.File
	// Base is the root of what the workspace began with: its layers without the upper (O_PATH).
	// It has the files of the commit, the git layer, and warm layers. It never changes.
	Base *os.File
	// GitLayer is the directory of the git layer, whose .git has packed-refs and the objects
	// that the plugin fetched. Only the plugin has written to it, and it never changes.
	GitLayer string
	// Uppers are the directories with what containers wrote, topmost first: that of the workspace, and those of the
	// checkpoints that it stands on. Only their names and attributes say something by themselves.
	Uppers []string
	// Tree are the directories of the layers with the files of the commit, topmost first.
	Tree []string

	hold  *workspace.Hold
	close func() error
}

// Viewer opens workspaces. It is safe for concurrent use.
type Viewer struct{ manager *workspace.Manager }

// NewViewer returns a Viewer for the workspaces of m.
func NewViewer(m *workspace.Manager) *Viewer { return &Viewer{m} }

// Subject returns the subject of a workspace; empty if there is none with this ID.
func (v *Viewer) Subject(id string) volume.Subject {
	rec, _ := v.manager.Workspace(id)
	return volume.Subject(rec.Options["subject"])
}

// Open opens a workspace that is mounted or parked, or a checkpoint. Close the View soon: until
// then a checkpoint can't be evicted, and a workspace that ends is not reaped. The
// errors are those of Manager.Hold.
func (v *Viewer) Open(ctx context.Context, id string) (*View, error) {
	h, err := v.manager.Hold(ctx, id)
	if err != nil {
		return nil, err
	}
	view := &View{Record: h.Record, GitLayer: h.Lower[0], Uppers: append([]string{h.Upper}, h.From...), Merged: h.Root, hold: h}
	view.Tree = h.Lower[len(h.Lower)-len(h.Record.Chain):]
	view.close = sync.OnceValue(func() (err error) {
		if view.Base != nil {
			err = view.Base.Close()
		}
		if view.Merged != h.Root {
			err = errors.Join(err, view.Merged.Close())
		}
		h.Release()
		return err
	})
	// The layers of a tree have neither redirects nor files without data.
	view.Base, err = overlay.View(overlay.Spec{Lower: h.Lower, Metacopy: h.Record.Metacopy})
	if err == nil && h.Root == nil {
		view.Merged, err = h.View()
	}
	if err != nil {
		return nil, errors.Join(err, view.Close())
	}
	return view, nil
}

// Context ends when the caller of Open has gone, after half an hour, and when the volume of a
// parked workspace is mounted. Its cause says which. The reader stops then, and calls Close.
func (v *View) Context() context.Context { return v.hold.Context() }

// Close ends the View. It may be called more than once.
func (v *View) Close() error { return v.close() }
