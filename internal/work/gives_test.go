package work

import (
	"testing"
	"testing/synctest"
)

// tries returns a function that tries to get a slot for a job that gives way, or one that does not.
func tries(t *testing.T, s *Scheduler) func(subject string, gives bool) *Slot {
	return func(subject string, gives bool) *Slot {
		ctx := WithOwner(t.Context(), Owner{Subject: subject})
		JobOf(ctx).GivesWay = gives
		return s.Try(ctx, CPU, false)
	}
}

// TestSlotsThatGiveWay: other subjects do not wait for the slots of a job that gives way, up to the number of
// overdue slots; it itself waits for the slots of others.
func TestSlotsThatGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		try := tries(t, NewScheduler(limits(2, 1, 1)))
		first, second := try("a", true), try("b", true)
		if first == nil || second == nil {
			t.Fatal("free slots were not granted")
		}
		if try("a", true) != nil {
			t.Error("a subject exceeds its own limit")
		}
		third := try("c", false)
		if third == nil {
			t.Fatal("one waits for those that give way")
		}
		if try("d", true) != nil {
			t.Error("more slots are granted than may be overdue")
		}
		first.Release()
		if try("d", true) == nil {
			t.Error("one that gives way does not get what may be overdue")
		}
	})
}

// TestOwnSlotsThatGiveWay: a subject's jobs do not wait for its slots that give way, and have their own limit beside
// them. Nor do other subjects wait longer because of that.
func TestOwnSlotsThatGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		try := tries(t, NewScheduler(limits(2, 1, 2)))
		if try("a", true) == nil {
			t.Fatal("a free slot was not granted")
		}
		if try("a", false) == nil {
			t.Error("a subject waits for its own slot that gives way")
		}
		if try("a", true) != nil || try("a", false) != nil {
			t.Error("a subject exceeds its own limit")
		}
		if try("b", false) == nil {
			t.Error("another subject waits for a slot that gives way")
		}
	})
}
