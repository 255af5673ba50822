package clone

import (
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// refFades is how long a ref is remembered that no volume names: its trees stay for
// the next volume, for the runtimes that this is for remove theirs with each
// container. Jobs that name a commit each would otherwise add to the record, and to
// the trees, for ever.
const refFades = 24 * time.Hour

// word is a ref as volumes say it, in the store of a history.
type word struct{ history, ref string }

// Name says that a volume names s.Ref: what is known of it is kept until Forget was
// called as often.
func (c *Clone) Name(s Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named[word{s.History.Name(), s.Ref.String()}]++
}

// Forget takes a Name back.
func (c *Clone) Forget(s Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := word{s.History.Name(), s.Ref.String()}
	if c.named[w]--; c.named[w] <= 0 {
		delete(c.named, w)
	}
}

// fade drops from a store's refs those that no volume names, and that the remote or
// the store was not asked for lately. It is called with mu held.
func (c *Clone) fade(history string, refs map[string]meta.Resolution) {
	now := c.m.Now()
	for ref, r := range refs {
		if c.named[word{history, ref}] == 0 && now.Sub(r.At) > refFades {
			delete(refs, ref)
		}
	}
}
