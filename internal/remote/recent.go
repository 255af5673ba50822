package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
)

// recentKept is how long the last answer stays in memory, because it may list hundreds of
// refs. Of many Mounts at once on a busy machine, the last ones ask later than they began.
const recentKept = 2 * time.Second

// recent is the last question that the remote answered without a change of the store
// meanwhile, for requests that come late to ask.
type recent struct{ last atomic.Pointer[lastQuestion] }

// lastQuestion is a question that has its answer.
type lastQuestion struct {
	key string // see Remote.ask
	question
	came time.Time // when the answer came, by the machine's clock as origin.Origin.Began
}

func (r *recent) keep(key string, q question) {
	last := &lastQuestion{key, q, time.Now()}
	r.last.Store(last)
	time.AfterFunc(recentKept, func() { r.last.CompareAndSwap(last, nil) })
}

// during returns the last question if it has the key, and its answer came after the request of
// ctx began. If that request had come to ask at once, it would have joined the question or begun
// an older one.
func (r *recent) during(ctx context.Context, key string) (q question, ok bool) {
	last, began := r.last.Load(), origin.Of(ctx).Began
	if last == nil || last.key != key || began.IsZero() || last.came.Before(began) {
		return q, false
	}
	return last.question, true
}

// fits reports whether a store is as it was at the time of the question, or has what the answer
// lists, so that Align can use the answer.
func (a Answer) fits(store meta.Store) bool {
	return a.snapshot == store.Snapshot || a.sum != "" && a.sum == store.RefSum
}
