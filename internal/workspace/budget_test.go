package workspace

import (
	"errors"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/admission"
)

// limit gives a workspace a limit in its record alone: the filesystem of the tests may have no project quotas.
func (w *world) limit(id string, limit disk.Size) {
	w.t.Helper()
	of, err := w.m.records.lookUp(id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.m.records.note(w.t.Context(), of, func(rec *meta.Workspace) { rec.Limit = limit })
}

// admit is Admit of a Mount of a volume with a limit of so many MiB.
func (w *world) admit(name, id string, private bool, mib int64) (done func(), err error) {
	return w.m.Admit("default/clone", Lease{name, id}, private, mib<<20)
}

// TestBudget: the limits of the live workspaces of a subject add up to at most its MaxSize, those that are being made
// included.
func TestBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := false
	w.m.config.MaxSize = func(dir string) (int64, bool) {
		if dir == "default" {
			return 100 << 20, own
		}
		return 0, false
	}
	may := func(what, name, id string, private bool, mib int64) (done func()) {
		t.Helper()
		done, err := w.admit(name, id, private, mib)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return done
	}
	rec, _ := w.open("v", "1")
	w.limit(rec.ID, disk.Size{Bytes: 40 << 20, Inodes: 1000})
	shared, _ := w.open("s", "1", "mode", "shared")
	w.limit(shared.ID, disk.Size{Bytes: 30 << 20})

	_, err := w.admit("v", "2", true, 31)
	refused(t, "Admit", err, "may hold 31m", "which is 100m by the setting SUBJECT_MAX_SIZE", `may hold 70m, those of the volumes "s" (30m), "v" (40m)`,
		"end a container", "docker repos subjects set --max-size")
	if budget := (*admission.BudgetError)(nil); !errors.As(err, &budget) {
		t.Errorf("%T", err)
	}
	own = true
	_, err = w.admit("v", "2", true, 31)
	refused(t, "Admit with a limit of its own", err, "100m by its own limit")
	if n := w.m.admission.Busy(); n > 0 {
		t.Errorf("%d are left of what was refused", n)
	}

	done := may("what is left", "v", "2", true, 30)
	if _, err := w.admit("v", "3", true, 1); err == nil {
		t.Error("a Mount at work does not count")
	}
	may("no limit", "v", "3", true, 0)()
	may("a lease that has its workspace", "v", "1#2", true, 40)()
	may("another mount of a shared workspace", "s", "2", false, 30)()
	if other, err := w.m.Admit("other/clone", Lease{"v", "3"}, true, 1<<40); err != nil {
		t.Errorf("another subject: %v", err)
	} else {
		other()
	}
	done()
	may("a mount that failed", "v", "3", true, 30)()

	// Two first mounts of a shared volume make one workspace.
	done = may("the first", "t", "1", false, 30)
	again := may("the second", "t", "2", false, 30)
	done()
	if _, err := w.admit("v", "3", true, 1); err == nil {
		t.Error("the second mount does not count when the first has ended")
	}
	again()

	// What has ended does not count, whether or not it is removed.
	w.release("v", "1")
	may("after the end", "v", "2", true, 70)()
	w.release("s", "1")
	_, err = w.admit("v", "2", true, 101)
	refused(t, "Admit of more than all", err, "may hold 101m", "may hold nothing yet")
}

// TestUses: what a workspace with a limit holds is what the kernel says, and each of 90 and 100 % is told once.
func TestUses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1")
	other, _ := w.open("v", "2")
	w.limit(rec.ID, disk.Size{Bytes: 1000, Inodes: 100})
	var use disk.Size
	var failure error
	w.m.meter.use = func(rec meta.Workspace) (disk.Size, error) {
		if rec.ID == other.ID {
			t.Error("asked for a workspace without a limit")
		}
		return use, failure
	}
	told := 0
	w.m.config.Filled = func() { told++ }
	reached := make(map[*workspace]int)
	now := time.Now().Round(0)
	for _, step := range []struct {
		name string
		disk.Size
		err  error
		told int
	}{
		{"nothing", disk.Size{Bytes: 100, Inodes: 20}, nil, 0},
		{"nearly", disk.Size{Bytes: 900, Inodes: 20}, nil, 1},
		{"still", disk.Size{Bytes: 950, Inodes: 95}, nil, 1},
		{"less", disk.Size{Bytes: 10, Inodes: 10}, nil, 1},
		{"again", disk.Size{Bytes: 900, Inodes: 20}, nil, 1},
		{"no answer", disk.Size{}, errors.New("no answer"), 1},
		{"no inodes", disk.Size{Bytes: 900, Inodes: 100}, nil, 2},
	} {
		use, failure = step.Size, step.err
		now = now.Add(useEvery)
		reached = w.m.meter.readUses(t.Context(), now, reached)
		got, _ := w.m.Workspace(rec.ID)
		if want := (meta.Measured{Size: step.Size, At: now}); step.err == nil && got.Size != want || told != step.told {
			t.Errorf("%s: %+v, told %d times; want %+v, %d times", step.name, got.Size, told, want, step.told)
		}
	}
	use = disk.Size{} // the container has taken all files out of the project
	w.meter(now.Add(upperEvery))
	reached = w.m.meter.readUses(t.Context(), now, reached)
	if got, _ := w.m.Workspace(rec.ID); got.Size.Bytes == 0 || got.Size.Inodes == 0 || told != 2 {
		t.Errorf("files that do not count for the limit: %+v, told %d times", got.Size, told)
	}
	for x := range reached {
		w.m.meter.compare(x, disk.Size{}, true, rec) // a walk that was cut off at once
	}
	reached = w.m.meter.readUses(t.Context(), now, reached)
	if got, _ := w.m.Workspace(rec.ID); got.Size.Bytes == 0 || len(reached) != 1 {
		t.Errorf("after a walk that was cut off: %+v, %d workspaces", got.Size, len(reached))
	}
	if got, _ := w.m.Workspace(other.ID); got.Size.At.IsZero() {
		t.Error("the size of the other one was not measured")
	}
	w.release("v", "1")
	if reached = w.m.meter.readUses(t.Context(), now, reached); len(reached) > 0 {
		t.Errorf("a workspace that has ended is remembered: %v", reached)
	}
}
