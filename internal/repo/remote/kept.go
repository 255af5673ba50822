package remote

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// keptLate is how long an answer stays in memory, because it may list hundreds of refs. Of many Mounts at once on a
	// busy machine, the last ones ask later than they began.
	keptLate = 2 * time.Second
	// keptMost is how long the answer to a Create stays at most, for the fetch that the Create began.
	keptMost = time.Minute
)

// kept has the last answers of the remote for a while, by Source.key. It is safe for concurrent use.
type kept struct {
	mu   sync.Mutex
	last map[string]*keptAnswer // nil until it is needed
}

type keptAnswer struct {
	question
	until time.Time // by the machine's clock
	end   *time.Timer
}

// key identifies the sources whose answers are the same, and for which the same store is used in the end.
func (s Source) key() string {
	parts := []string{s.History.Name(), s.URL.String(), s.Ref.String(), s.Credential, fmt.Sprint(s.Pin)}
	return strings.Join(parts, "\x00")
}

// keep keeps an answer for as long as somebody may ask for it, in place of an older one.
func (k *kept) keep(key string, q question, most time.Duration) {
	e := &keptAnswer{question: q, until: time.Now().Add(min(max(most, keptLate), keptMost))}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.last[key]; old != nil {
		if old.number > e.number {
			return
		}
		if old.until.After(e.until) {
			e.until = old.until
		}
		old.end.Stop() // which has the answer of before in memory
	}
	if k.last == nil {
		k.last = make(map[string]*keptAnswer)
	}
	k.last[key] = e
	e.end = time.AfterFunc(time.Until(e.until), func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.last[key] == e {
			delete(k.last, key)
		}
		if len(k.last) == 0 {
			k.last = nil
		}
	})
}

// get returns the last answer, if it is still there.
func (k *kept) get(key string) (keptAnswer, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.last[key]; e != nil {
		return *e, true
	}
	return keptAnswer{}, false
}
