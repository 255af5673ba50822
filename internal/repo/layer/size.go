package layer

import (
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// Sizes are the sums of the sizes of layers by kind. Those of caches are no warm layers here.
type Sizes struct{ Trees, GitLayers, WarmLayers, Caches disk.Size }

// Sum returns the size of all kinds.
func (s Sizes) Sum() disk.Size { return s.Trees.Add(s.GitLayers).Add(s.WarmLayers).Add(s.Caches) }

// Sizes returns what all layers take. Unmeasured ones count as 0.
func (s *Set) Sizes() (sums Sizes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owns := make(map[string]disk.Size)
	for _, l := range s.known {
		switch {
		case l.Cache != "":
			sums.Caches = sums.Caches.Add(s.ownLocked(l, owns))
		case l.Kind == meta.Tree:
			sums.Trees = sums.Trees.Add(l.Size.Size)
		case l.Kind == meta.GitLayer:
			sums.GitLayers = sums.GitLayers.Add(l.Size.Size)
		case l.Kind == meta.WarmLayer:
			sums.WarmLayers = sums.WarmLayers.Add(l.Size.Size)
		}
	}
	return sums
}

// SizeOf returns the sum of the sizes of layers, also of files that they share with others. Unknown and unmeasured ones
// count as 0.
func (s *Set) SizeOf(k meta.Kind, ids ...string) (sum disk.Size) {
	for _, id := range ids {
		l, _ := s.Get(k, id)
		sum = sum.Add(l.Size.Size)
	}
	return sum
}

// Own returns what a layer takes besides the files that it shares with known ones that it was merged from. Without it the
// disk has so much more room, unless another was merged from it.
func (s *Set) Own(k meta.Kind, id string) disk.Size {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownLocked(s.known[name{k, id}], make(map[string]disk.Size))
}

// ownLocked is Own. It remembers in owns what it finds about merged layers, because these may be merged from one another.
func (s *Set) ownLocked(l meta.Layer, owns map[string]disk.Size) disk.Size {
	if l.Cache == "" || len(l.Of) == 0 {
		return l.Size.Size
	}
	own, ok := owns[l.ID]
	if ok {
		return own
	}
	own = l.Size.Size
	for _, id := range l.Of {
		own = own.Sub(s.ownLocked(s.known[name{l.Kind, id}], owns))
	}
	own = disk.Size{Bytes: max(own.Bytes, 0), Inodes: max(own.Inodes, 0)} // what they have at one path is there once
	owns[l.ID] = own
	return own
}

// freed returns how much the removal of a layer frees, which is not known any more. It is not zero, which would mean that
// nobody has measured it.
func (s *Set) freed(l meta.Layer) disk.Size {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.known {
		if other.Cache != "" && slices.Contains(other.Of, l.ID) {
			return disk.Size{Inodes: 1}
		}
	}
	return s.ownLocked(l, make(map[string]disk.Size))
}
