package main

import (
	"path/filepath"

	"github.com/helmdeck/repos/internal/changes"
	"github.com/helmdeck/repos/internal/look"
	"github.com/helmdeck/repos/internal/quarantine"
	"github.com/helmdeck/repos/internal/workspace"
)

// inspectSize bounds the objects of a workspace that are copied to count its commits, in bytes.
const inspectSize = 1 << 30

// newInspector returns what looks at workspaces. Its directory has only copies, which the next
// start removes.
func newInspector(m machine, workspaces *workspace.Manager) (*look.Inspector, error) {
	q, err := quarantine.Open(m.git, filepath.Join(m.at.data, "inspect"), inspectSize)
	if err != nil {
		return nil, err
	}
	return look.NewInspector(look.NewViewer(workspaces), &changes.Reader{Git: m.git, Dir: q.Dir}, q), nil
}
