package main

import (
	"github.com/helmdeck/repos/internal/outbound/changes"
	"github.com/helmdeck/repos/internal/outbound/look"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/workspace"
)

// newInspector returns what looks at workspaces. It makes its copies in the quarantine, which the
// next start empties.
func newInspector(m machine, workspaces *workspace.Manager, q *quarantine.Quarantine) *look.Inspector {
	return look.NewInspector(look.NewViewer(workspaces), &changes.Reader{Git: m.git, Dir: q.Dir}, q)
}
