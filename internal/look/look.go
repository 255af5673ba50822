// Package look gives access to the files of a workspace to whoever is not its container: its
// files as the container sees them, and what it began with.
//
// A caller may rely on this:
//
//   - Nothing is mounted where a container or the engine could see it, nothing is written, and
//     no record is: after a crash there is nothing to repair.
//   - The upper of a workspace that is mounted is read only through that mount, and that of
//     another one only through a mount that can't write. So an upper is never in two
//     overlays that use it.
//   - Open does not wait for containers, and nothing but the end of the workspace waits for a
//     View.
//
// A container may change whatever it can write while it is looked at, so paths are resolved
// beneath the descriptors, without links and without entering mounts (disk.Open), such as the
// cache.
package look

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
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
	// Upper is the directory with what containers wrote: only its names and attributes say
	// something by themselves.
	Upper string

	hold  *workspace.Hold
	close func() error
}

// Viewer opens workspaces. It is safe for concurrent use.
type Viewer struct{ holder *workspace.Holder }

// NewViewer returns a Viewer for the workspaces of m.
func NewViewer(m *workspace.Manager) *Viewer { return &Viewer{workspace.NewHolder(m)} }

// Open opens a workspace that is mounted or parked, or a discard. Close the View soon: until
// then a discard can't be restored or evicted, and a workspace that ends is not reaped. The
// errors are those of workspace.Holder.
func (v *Viewer) Open(ctx context.Context, id string) (*View, error) {
	h, err := v.holder.Hold(ctx, id)
	if err != nil {
		return nil, err
	}
	view := &View{Record: h.Record, GitLayer: h.Lower[0], Upper: h.Upper, Merged: h.Root, hold: h}
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
	view.Base, err = overlay.View(overlay.Spec{Lower: h.Lower})
	if err == nil && h.Root == nil {
		view.Merged, err = overlay.View(overlay.Spec{
			Lower: append([]string{h.Upper}, h.Lower...), Metacopy: h.Record.Metacopy, Redirects: h.Record.Redirects,
		})
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
