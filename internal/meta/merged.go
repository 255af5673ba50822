package meta

import (
	"iter"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
)

// NeedsUnmerged reports whether a workspace consists, among others, of what the one with that ID wrote before it was
// merged with what it stood on, if it was.
func (w *Workspace) NeedsUnmerged(id string) bool {
	i := slices.Index(w.From, id)
	return i >= 0 && !(w.OnMerged && i == len(w.From)-1) || w.ID == id && len(w.Merged) == 0
}

// Stack returns the IDs of the checkpoint and of those that it stands on, topmost first.
func (w Workspace) Stack() []string { return append([]string{w.ID}, w.From...) }

// StandLike makes a record one of a workspace that stands on what another one stands on, at the same commit.
func (w *Workspace) StandLike(other Workspace) {
	w.From, w.OnMerged, w.Metacopy = other.From, other.OnMerged, other.Metacopy
	w.Tree, w.Chain, w.GitLayer, w.Warm = other.Tree, other.Chain, other.GitLayer, other.Warm
	w.Ref, w.Commit, w.Pulled, w.Reused = other.Ref, other.Commit, other.Pulled, other.Reused
	w.Stale, w.Shallow, w.Missing = other.Stale, other.Shallow, other.Missing
}

// Below returns the IDs of the checkpoints that workspaces, or other checkpoints, stand on.
func Below(recs iter.Seq[Workspace]) map[string]bool {
	below := make(map[string]bool)
	for rec := range recs {
		for _, id := range rec.From {
			below[id] = true
		}
	}
	return below
}

// Standing has, by the ID of a checkpoint, how many workspaces stand on it that are no checkpoints themselves: those
// that are going to be mounted, that their volume keeps, and that have ended but that a container may still use, too.
type Standing map[string]int

// Add counts a workspace n times.
func (s Standing) Add(w *Workspace, n int) {
	if w.Phase == Checkpoint {
		return
	}
	for _, id := range w.From {
		if s[id] += n; s[id] == 0 {
			delete(s, id)
		}
	}
}

// On reports whether any of them stands on one of these checkpoints.
func (s Standing) On(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return s[id] > 0 })
}

// Inherit makes what counts for another checkpoint, whose files a merged one has too, count for this one instead. That
// is no more than its own files take: the rest is only the other one's.
func (w *Workspace) Inherit(from *Workspace) {
	of, room := from.Size.Size, w.Whole.Sub(w.Size.Size)
	taken := disk.Size{Bytes: max(min(of.Bytes, room.Bytes), 0), Inodes: max(min(of.Inodes, room.Inodes), 0)}
	w.Size.Size, from.Size.Size = w.Size.Add(taken), of.Sub(taken)
}

// Frees returns how much the removal of a workspace frees, as far as that is known. It is not zero when others have
// inherited all, which would mean that nobody has measured it.
func (w *Workspace) Frees() disk.Size {
	if size := w.Size.Size; size != (disk.Size{}) || w.Size.At.IsZero() {
		return size
	}
	return disk.Size{Inodes: 1}
}

// DropUnmerged makes nothing count for a merged checkpoint but what it is now. It reports whether more did.
func (w *Workspace) DropUnmerged() bool {
	before := w.Size.Size
	w.Size.Size = disk.Size{Bytes: min(before.Bytes, w.Whole.Bytes), Inodes: min(before.Inodes, w.Whole.Inodes)}
	return w.Size.Size != before
}
