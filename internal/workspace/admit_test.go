package workspace

import (
	"testing"
)

// upTo returns a limit that is the same for all subjects.
func upTo(n int) func(string) (int, bool) { return func(string) (int, bool) { return n, false } }

// TestAdmit: mounts are counted by subject, also those in progress.
func TestAdmit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m.config.MaxLeases = upTo(3)
	rec, _ := w.open("v", "1")
	w.open("w", "1", "mode", "shared")
	w.join("w", "2")
	_, err := w.m.Admit(rec.Clone, Lease{"v", "2"}, true, 0)
	refused(t, "Admit", err, "3 mounts", "SUBJECT_MAX_LEASES", "allows 3", `"v" (1), "w" (2)`, "end a container")
	done, err := w.m.Admit("other/clone", Lease{"v", "2"}, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	done()
	w.release("v", "1")
	if done, err = w.m.Admit(rec.Clone, Lease{"v", "3"}, true, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Admit(rec.Clone, Lease{"v", "4"}, true, 0); err == nil {
		t.Error("a mount at work does not count")
	}
	w.open("v", "3")                       // what the mount at work makes
	if n := w.m.admission.Busy(); n != 2 { // the lease, and the place of its workspace
		t.Errorf("%d mounts at work", n)
	}
	_, err = w.m.Admit(rec.Clone, Lease{"v", "4"}, true, 0)
	refused(t, "Admit beside a mount that has its lease", err, "3 mounts")
	w.release("w", "2")
	if also, err := w.m.Admit(rec.Clone, Lease{"v", "4"}, true, 0); err != nil {
		t.Errorf("a mount that has its lease counts twice: %v", err)
	} else {
		also()
	}
	done()
	if done, err = w.m.Admit(rec.Clone, Lease{"v", "4"}, true, 0); err != nil {
		t.Error(err)
	}
	done()
	if n := w.m.admission.Busy(); n > 0 {
		t.Errorf("%d at work", n)
	}
}

// TestAdmitCopies: the leases of one container count as one, also those that are left of it.
func TestAdmitCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m.config.MaxLeases = upTo(2)
	rec, _ := w.open("v", "1")
	w.copy("1")
	done, err := w.m.Admit(rec.Clone, Lease{"v", "2"}, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	done()
	w.m.config.MaxLeases = upTo(1)
	for _, released := range []string{"none", "1"} { // as when the first is lost, and a docker cp runs still
		w.release("v", released)
		_, err := w.m.Admit(rec.Clone, Lease{"v", "2"}, true, 0)
		refused(t, "Admit after the release of "+released, err, "1 mounts")
	}
}

// TestAdmitOwnLimit: the limit of a subject is its own if it has one, and the error says so.
func TestAdmitOwnLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1")
	w.m.config.MaxLeases = func(dir string) (int, bool) {
		if dir == "default" {
			return 1, true
		}
		return 0, false
	}
	_, err := w.m.Admit(rec.Clone, Lease{"v", "2"}, true, 0)
	refused(t, "Admit", err, "1 mounts", "its own limit allows 1")
	if done, err := w.m.Admit("other/clone", Lease{"v", "2"}, true, 0); err != nil {
		t.Error(err)
	} else {
		done()
	}
}
