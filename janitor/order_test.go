package janitor

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/helmdeck/repos/internal/disk"
)

// TestTrashEvictsNothing checks that the size of the trash changes no plan for MAX_SIZE: it goes
// already.
func TestTrashEvictsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		lim.MinFree, lim.Room = 0, disk.Size{}
		want := Decide(inv, lim).Evictions
		inv.Trash = inv.Trash.Add(disk.Size{Bytes: 1 << 40})
		if got := Decide(inv, lim).Evictions; !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

// TestCheckpointsGoLast checks that a checkpoint before its time goes only when all other candidates are
// gone, unless its subject has too much or its clone exceeds the limit on its own.
func TestCheckpointsGoLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		plan := Decide(inv, lim)
		for i, e := range plan.Evictions {
			if e.Kind != Checkpoint || e.Reason == Expired || e.Reason == SubjectMaxSize || e.TooLarge {
				continue
			}
			before := apply(t, inv, Plan{Evictions: plan.Evictions[:i]})
			for _, c := range before.Clones {
				if clean(c) && (e.Reason != MaxSize || (c.Mounted || since(c.Made) >= lim.Grace) && !isException(c, budgetOf(inv, lim))) {
					t.Errorf("%+v goes before %+v", e, c)
				}
			}
		}
	})
}

// TestClockJumpEvictsLittle lets years pass at once.
func TestClockJumpEvictsLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		lim.SubjectMaxSize, lim.MaxSize, lim.MinFree, lim.Room = 0, 0, 0, disk.Size{}
		inv.SubjectMaxSize = nil
		inv.Now = inv.Now.AddDate(rapid.IntRange(2, 250).Draw(t, "years"), 0, 0)
		clones, checkpoints := 0, 0
		for _, e := range Decide(inv, lim).Evictions {
			switch e.Kind {
			case WholeClone:
				clones++
			case Checkpoint:
				checkpoints++
			}
		}
		if clones > 1 || checkpoints > 3 { // a twentieth of 60
			t.Errorf("%d clones and %d checkpoints are evicted, want at most 1 and 3", clones, checkpoints)
		}
	})
}

// TestStagesInAnyOrder checks that no stage jumps over another one: in whatever order they come, the limit holds after
// them, or nothing more can be evicted for it.
func TestStagesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		lim.MinFree = rapid.Float64Range(0, 1).Draw(t, "min free")
		p := newPlanner(inv, lim)
		target := p.all(MinFree, rapid.Permutation(everything).Draw(t, "stages"), func() excess { return ofFree(inv.Space, p.free(), lim.MinFree) })
		inVain := target.excess().less(p.reach(target)).over()
		p.relieve(target)
		over := target.excess().over()
		if over != (len(p.plan.Missing) > 0) {
			t.Errorf("exceeded: %v, missing: %+v", over, p.plan.Missing)
		}
		for _, s := range target.stages {
			for c := range p.candidates(s, target) {
				if over && (s != stageCheckpoints || !inVain) {
					t.Errorf("stage %d leaves %d although the limit is exceeded", s, c.number())
				}
			}
		}
	})
}
