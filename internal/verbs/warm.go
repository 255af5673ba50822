package verbs

import (
	"fmt"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// warmStatus describes a warm path of the newest workspace in Status.
type warmStatus struct {
	Path string `json:"path"`
	// Head is the key of the head that the workspace may move. Equal keys share it.
	Head string `json:"head"`
	// Layers is the number of layers that the workspace got, Bytes their size.
	Layers int   `json:"layers"`
	Bytes  int64 `json:"bytes"`
	// Commit is that of the workspace that left the state, BuiltAt when that ended, and Label what its container wrote into
	// the mark of publish=marked.
	Commit  string    `json:"commit,omitempty"`
	BuiltAt time.Time `json:"built_at,omitzero"`
	Label   string    `json:"label,omitempty"`
	// Why says why the state is not that of the head.
	Why string `json:"why,omitempty"`
	// LeftOut is the reason why the path is not carried over.
	LeftOut string `json:"left_out,omitempty"`
}

// warmStatus describes the warm paths of a workspace, from memory.
func (v *Volumes) warmStatus(w meta.Workspace) []warmStatus {
	list := []warmStatus{}
	for _, p := range w.Warm {
		if warm.IsCache(p) {
			continue
		}
		f := v.config.Workspaces.Warm().Found(w.Clone, p)
		list = append(list, warmStatus{
			Path: p.Path, Head: p.Head, Layers: len(p.Chain), Bytes: f.Size.Bytes, Commit: f.Commit, BuiltAt: f.BuiltAt.UTC(), Label: f.Label, Why: f.Why,
			LeftOut: p.LeftOut,
		})
	}
	return list
}

// warmWarnings says which warm directories of a workspace have files that its volume's user can't change.
func (v *Volumes) warmWarnings(w meta.Workspace) (list []string) {
	for _, p := range w.Warm {
		if uid := v.config.Workspaces.Warm().Foreign(w.Clone, p.Chain); uid != nil {
			list = append(list, foreignWarning(p.Path, w.UID, *uid))
		}
	}
	return list
}

func foreignWarning(path string, uid, foreign uint32) string {
	return fmt.Sprintf("files in the warm directory %q belong to uid %d, and the volume has uid=%d, which can't change them: "+
		"run the containers as uid %d, and remove the directory in one that runs as root", path, foreign, uid, uid)
}
