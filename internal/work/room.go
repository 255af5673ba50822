package work

// Room returns which of the machine's processors, numbered from 0, the work of a slot of kind CPU
// should use: n of them, at least 1, from first on. Each other slot leaves one processor to its holder,
// and those that call Room share the rest, in which they do not overlap while there are enough.
// changed is closed when the answer may be another one; it is nil if it is always the same. Do not
// call Room after Release.
//
// The processors that exceed one are lent: they keep no slot from being granted.
func (slot *Slot) Room(processors int) (first, n int, changed <-chan struct{}) {
	s := slot.s
	if s == nil {
		return 0, processors, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slot.spreads {
		slot.spreads = true
		s.notify(CPU)
	}
	rank, spread := 0, 0
	held := s.pools[CPU].held // in the order of their grants
	for _, other := range held {
		if other == slot {
			rank = spread
		}
		if other.spreads {
			spread++
		}
	}
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	free := processors - (len(held) - spread)
	if free < spread {
		return rank % processors, 1, s.moved
	}
	first = rank * free / spread
	return first, (rank+1)*free/spread - first, s.moved
}

// notify tells those that have called Room that slots of a kind were granted or released. The caller
// holds mu.
func (s *Scheduler) notify(k Kind) {
	if k == CPU && s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}
