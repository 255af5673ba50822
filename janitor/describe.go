package janitor

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// ErrNoClone is returned for an unknown clone.
var ErrNoClone = errors.New("there is no clone")

// CloneInfo describes a clone to people.
type CloneInfo struct {
	Clone   string    `json:"clone"` // its key
	Subject string    `json:"subject"`
	Repo    string    `json:"repo"`
	Used    time.Time `json:"used"`
	// Size is the total; Parts has the sums by kind. The rest are stores and LFS objects.
	Size  disk.Size            `json:"size"`
	Parts map[string]disk.Size `json:"parts"`
	Held  Hold                 `json:"held"`
}

// describe lists the clones of an inventory, largest first.
func describe(inv Inventory) []CloneInfo {
	p := newPlanner(inv, Limits{})
	list := make([]CloneInfo, 0, len(p.clones))
	for i := range p.clones {
		c := &p.clones[i]
		info := CloneInfo{
			Clone: c.Key, Subject: c.Subject, Repo: c.Repo, Used: time.Unix(c.used(), 0).UTC(), Size: c.left, Held: c.hold,
			Parts: make(map[string]disk.Size),
		}
		for _, part := range c.Parts {
			info.Parts[part.Kind.String()] = info.Parts[part.Kind.String()].Add(part.Size)
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b CloneInfo) int {
		return cmp.Or(cmp.Compare(b.Size.Bytes, a.Size.Bytes), strings.Compare(a.Clone, b.Clone))
	})
	return list
}
