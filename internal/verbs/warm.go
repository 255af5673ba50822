package verbs

import "github.com/helmdeck/repos/internal/meta"

// warmStatus describes a warm path of the newest workspace in Status.
type warmStatus struct {
	Path string `json:"path"`
	// Head is the key of the head that the workspace may move. Equal keys share it.
	Head string `json:"head"`
	// Layers is the number of layers that the workspace got, Bytes their size.
	Layers int   `json:"layers"`
	Bytes  int64 `json:"bytes"`
	// Fallback is set if the layers are the default branch's, because the ref had none.
	Fallback bool `json:"fallback,omitempty"`
	// ReadOnly is set if nothing is promoted.
	ReadOnly bool `json:"read_only,omitempty"`
	// LeftOut is the reason why the path is not carried over.
	LeftOut string `json:"left_out,omitempty"`
}

// warmStatus describes the warm paths of a workspace, from memory.
func (v *Volumes) warmStatus(w meta.Workspace) []warmStatus {
	list := []warmStatus{}
	for _, p := range w.Warm {
		list = append(list, warmStatus{
			Path: p.Path, Head: p.Head, Layers: len(p.Chain), Bytes: v.Workspaces.Warm.ChainSize(w.Clone, p.Chain).Bytes,
			Fallback: p.From != "", ReadOnly: p.ReadOnly, LeftOut: p.LeftOut,
		})
	}
	return list
}
