package warm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/helmdeck/repos/internal/meta"
)

// headOf returns a head of a key, still without a chain.
func (w Want) headOf(path, ref string) meta.WarmHead {
	h := meta.WarmHead{Clone: w.Clone, Path: path, UID: w.UID, GID: w.GID, Ref: ref, Text: w.Text}
	h.Key = keyOf(h)
	return h
}

// keyOf returns the hash of what state must have in common to be carried over.
func keyOf(h meta.WarmHead) string {
	data, err := json.Marshal([]any{h.Path, h.UID, h.GID, h.Ref, h.Text})
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
