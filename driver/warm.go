package driver

import "github.com/helmdeck/repos/internal/meta"

// warmStatus is what Status shows of a warm path of the newest workspace.
type warmStatus struct {
	Path string `json:"path"`
	// Head is the key of what the workspace may move: equal ones share it.
	Head string `json:"head"`
	// Layers are how many the workspace found, Bytes what they take.
	Layers int   `json:"layers"`
	Bytes  int64 `json:"bytes"`
	// Fallback is set when they are the default branch's, for the ref had none.
	Fallback bool `json:"fallback,omitempty"`
	// ReadOnly is set when nothing is published.
	ReadOnly bool `json:"read_only,omitempty"`
	// LeftOut says why the path is not carried over.
	LeftOut string `json:"left_out,omitempty"`
}

// warmStatus describes the warm paths of a workspace, from memory.
func (d *Driver) warmStatus(w meta.Workspace) []warmStatus {
	list := []warmStatus{}
	for _, p := range w.Warm {
		list = append(list, warmStatus{
			Path: p.Path, Head: p.Head, Layers: len(p.Chain), Bytes: d.Workspaces.Warm.ChainSize(w.Clone, p.Chain).Bytes,
			Fallback: p.From != "", ReadOnly: p.ReadOnly, LeftOut: p.LeftOut,
		})
	}
	return list
}
