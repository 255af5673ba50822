package work

import (
	"fmt"
	"testing"
)

// rooms returns the processors that each slot should use, such as "0-2 3-3".
func rooms(processors int, slots ...*Slot) (list []string) {
	for _, slot := range slots {
		slot.Room(processors)
	}
	for _, slot := range slots {
		first, n, _ := slot.Room(processors)
		list = append(list, fmt.Sprintf("%d-%d", first, first+n-1))
	}
	return list
}

// TestRoom checks that slots share the processors that no other slot is held for, without overlap as
// long as there are enough.
func TestRoom(t *testing.T) {
	for _, tt := range []struct {
		processors, others, spread int
		want                       string
	}{
		{1, 0, 1, "[0-0]"},
		{1, 1, 2, "[0-0 0-0]"},
		{2, 0, 1, "[0-1]"},
		{2, 1, 1, "[0-0]"},
		{2, 0, 2, "[0-0 1-1]"},
		{2, 2, 2, "[0-0 1-1]"},
		{2, 1, 3, "[0-0 1-1 0-0]"},
		{8, 3, 1, "[0-4]"},
		{8, 0, 3, "[0-1 2-4 5-7]"},
		{8, 6, 3, "[0-0 1-1 2-2]"},
		{8, 9, 1, "[0-0]"},
	} {
		s := NewScheduler(limits(100, 100, 0))
		for range tt.others {
			acquire(t, s, as(t, "a"), false)
		}
		var slots []*Slot
		for range tt.spread {
			slots = append(slots, acquire(t, s, as(t, "b"), false))
		}
		if got := fmt.Sprint(rooms(tt.processors, slots...)); got != tt.want {
			t.Errorf("%d processors, %d other slots, %d that share: %s, want %s", tt.processors, tt.others, tt.spread, got, tt.want)
		}
	}
}

// TestRoomChanges checks that the holder of a slot hears of each change of its room.
func TestRoomChanges(t *testing.T) {
	s := NewScheduler(limits(2, 2, 0))
	slot := acquire(t, s, as(t, "a"), false)
	want := func(what string, n int, before <-chan struct{}) <-chan struct{} {
		t.Helper()
		if before != nil {
			select {
			case <-before:
			default:
				t.Errorf("%s: nobody was told", what)
			}
		}
		_, got, changed := slot.Room(2)
		if got != n {
			t.Errorf("%s: %d processors, want %d", what, got, n)
		}
		select {
		case <-changed:
			t.Errorf("%s: the channel is closed", what)
		default:
		}
		return changed
	}
	changed := want("alone", 2, nil)
	other := acquire(t, s, as(t, "b"), false)
	changed = want("beside another", 1, changed)
	other.Release()
	changed = want("alone again", 2, changed)
	question, err := s.Acquire(as(t, "b"), Question, false)
	if err != nil {
		t.Fatal(err)
	}
	defer question.Release()
	select {
	case <-changed:
		t.Error("a question takes a processor")
	default:
	}
	if _, n, changed := (&Slot{}).Room(7); n != 7 || changed != nil {
		t.Errorf("without a Scheduler: %d processors, want 7, for ever", n)
	}
}
