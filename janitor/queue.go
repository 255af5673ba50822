package janitor

import (
	"cmp"
	"iter"
	"math"
	"strings"
	"time"
)

// candidate is a number that sorts by least recent use: the high half is the inverted
// age, the low half the number of the part or clone.
type candidate uint64

func newCandidate(age uint32, n int) candidate {
	return candidate(math.MaxUint32-age)<<32 | candidate(uint32(n))
}

func (c candidate) number() uint32 { return uint32(c) }

func (c candidate) age() time.Duration { return duration(math.MaxUint32 - uint32(c>>32)) }

// queue is a heap, because a plan takes few of many candidates.
type queue struct {
	heap []candidate
	// name returns the clone and part of a candidate, so that the order of parts of the
	// same clone and second does not depend on that of the inventory. It is nil for a
	// queue of clones, whose numbers have a fixed order.
	name func(candidate) (owner uint32, part *Part)
}

// leastRecent yields each candidate once, the least recently used first.
func leastRecent(list []candidate, name func(candidate) (uint32, *Part)) iter.Seq[candidate] {
	q := queue{list, name}
	for i := len(list)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
	return func(yield func(candidate) bool) {
		for len(q.heap) > 0 {
			first, last := q.heap[0], len(q.heap)-1
			q.heap[0], q.heap = q.heap[last], q.heap[:last]
			q.down(0)
			if !yield(first) {
				return
			}
		}
	}
}

// less is small enough to be inlined: a plan compares millions of candidates.
func (q *queue) less(a, b candidate) bool {
	if q.name == nil || a>>32 != b>>32 {
		return a < b
	}
	return q.lessInSecond(a, b)
}

func (q *queue) lessInSecond(a, b candidate) bool {
	owner, x := q.name(a)
	other, y := q.name(b)
	// What stands on others goes before them.
	return cmp.Or(cmp.Compare(owner, other), cmp.Compare(x.Kind, y.Kind), cmp.Compare(len(y.Below), len(x.Below)), strings.Compare(x.ID, y.ID)) < 0
}

func (q *queue) down(i int) {
	h := q.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && q.less(h[right], h[child]) {
			child = right
		}
		if !q.less(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
