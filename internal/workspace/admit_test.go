package workspace

import (
	"testing"
)

// TestAdmit: mounts are counted by subject, also those at work.
func TestAdmit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m.MaxLeases = 3
	rec, _ := w.open("v", "1")
	w.open("w", "1", "mode", "shared")
	w.join("w", "2")
	_, err := w.m.Admit(rec.Clone)
	refused(t, "Admit", err, "3 mounts", "SUBJECT_MAX_LEASES", "allows 3", `"v" (1), "w" (2)`, "end a container")
	done, err := w.m.Admit("other/clone")
	if err != nil {
		t.Fatal(err)
	}
	done()
	w.release("v", "1")
	if done, err = w.m.Admit(rec.Clone); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Admit(rec.Clone); err == nil {
		t.Error("a mount at work does not count")
	}
	done()
	done()
	if done, err = w.m.Admit(rec.Clone); err != nil {
		t.Error(err)
	}
	done()
	if len(w.m.atWork) > 0 {
		t.Errorf("at work: %v", w.m.atWork)
	}
}
