package verbs

import (
	"time"

	"github.com/helmdeck/repos/internal/remote"
)

// answerFor is how long after the creation of a volume its Acquires use the remote's answer to
// Create. It is enough for `docker run`, which mounts a new volume up to twice, and so asks
// once.
const answerFor = 10 * time.Second

// answerKept is how long an answer stays in memory if nobody mounts the volume. It may list
// hundreds of refs.
const answerKept = time.Minute

// keepAnswer keeps the remote's answer to the Create of a volume for its Acquires.
func (v *Volumes) keepAnswer(h *handle, a *remote.Answer) {
	if a == nil || h.opts.Refresh.Always {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	h.answer = a
	time.AfterFunc(answerKept, func() { v.dropAnswer(h) })
}

// answerTo returns the remote's answer to the Create of a volume, for an Acquire, or nil if
// the Acquire must ask itself: a credential may have been removed since.
func (v *Volumes) answerTo(h *handle) *remote.Answer {
	changes := v.credentialChanges()
	v.mu.Lock()
	defer v.mu.Unlock()
	most := answerFor
	if i := h.opts.Refresh.Interval; i > 0 {
		most = min(most, i)
	}
	// Round drops the monotonic clock, which stands still while the machine sleeps. The age is
	// negative if the clock was set back: unknown.
	age := v.Now().Round(0).Sub(h.rec.CreatedAt.Round(0))
	if h.answer != nil && changes != h.changes {
		h.since.Store(h.clone.Remote.Asked()) // no other question from before counts either
		h.answer = nil
	}
	if age < 0 || age >= most {
		h.answer = nil
	}
	return h.answer
}

func (v *Volumes) dropAnswer(h *handle) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.answer = nil
}

func (v *Volumes) credentialChanges() int64 {
	if v.CredentialChanges == nil {
		return 0
	}
	return v.CredentialChanges()
}
