package janitor

import (
	"cmp"
	"math"
	"slices"
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

// queue returns candidates, least recently used first. It is a heap, because a plan takes
// few of many.
type queue struct {
	heap []candidate
	// run has the first candidates of equal age and owner, sorted independently of their
	// order in the inventory. name returns the clone and part of a candidate, and is nil
	// for a queue of clones, whose order is fixed.
	run  []candidate
	name func(candidate) (owner uint32, part *Part)
}

func newQueue(list []candidate, name func(candidate) (uint32, *Part)) *queue {
	q := &queue{heap: list, name: name}
	for i := len(list)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
	return q
}

// next removes the first candidate; ok is false if there is none.
func (q *queue) next() (c candidate, ok bool) {
	if len(q.run) == 0 {
		if len(q.heap) == 0 {
			return 0, false
		}
		q.run = append(q.run, q.pop())
		if q.name != nil {
			q.ties()
		}
	}
	c, q.run = q.run[0], q.run[1:]
	return c, true
}

// ties adds to run the candidates of the same second and clone.
func (q *queue) ties() {
	first := q.run[0]
	owner, _ := q.name(first)
	for len(q.heap) > 0 && q.heap[0]>>32 == first>>32 {
		if other, _ := q.name(q.heap[0]); other != owner {
			break
		}
		q.run = append(q.run, q.pop())
	}
	if len(q.run) > 1 {
		slices.SortFunc(q.run, func(a, b candidate) int {
			_, x := q.name(a)
			_, y := q.name(b)
			return cmp.Or(cmp.Compare(x.Kind, y.Kind), strings.Compare(x.ID, y.ID))
		})
	}
}

func (q *queue) pop() candidate {
	c, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.down(0)
	return c
}

func (q *queue) down(i int) {
	h := q.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right] < h[child] {
			child = right
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
