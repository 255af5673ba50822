package gitref

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/helmdeck/repos/internal/volume"
)

// Sum identifies a set of refs: equal sets have equal sums. It is for comparisons with what
// the same remote had before: a remote can make two sets with equal sums, and deceives only
// the clones of itself.
type Sum struct {
	Count int    `json:"count"`
	Hash  string `json:"hash"`
}

// Summer computes a Sum of refs in any order, and keeps none of them. The zero value is
// that of no refs.
type Summer struct {
	count int
	hash  [sha256.Size]byte
}

// Add adds a ref, which must not have been added before.
func (s *Summer) Add(name, id string) {
	s.count++
	for i, b := range sha256.Sum256([]byte(id + " " + name)) {
		s.hash[i] ^= b
	}
}

// Sum returns the sum of the refs that were added.
func (s *Summer) Sum() Sum { return Sum{Count: s.count, Hash: hex.EncodeToString(s.hash[:16])} }

// Listable reports whether a Sum counts a ref: its name is one that a volume could name. git
// stores some other names, such as long ones, and a remote may list any.
func Listable(name string) bool {
	_, err := volume.ParseRef(name)
	return err == nil
}
