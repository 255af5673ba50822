package driver

import (
	"reflect"
	"testing"
)

// Status says why the newest workspace has no cache, or nothing at a warm path.
func TestStatusSaysWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "cache", "off", "warm", "node_modules")
	w.create("plain")
	w.mountOK("v", "1")
	w.mountOK("plain", "1")
	v, err := w.Get("v")
	if err != nil {
		t.Fatal(err)
	}
	got, ok := v.Status["not_used"].(map[string]string)
	if !ok || len(got) != 2 || got[".git/hdcache"] != "the volume has cache=off" || got["node_modules"] == "" {
		t.Errorf("not used: %v", v.Status["not_used"])
	}
	plain, err := w.Get("plain")
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.Status["not_used"]; !reflect.DeepEqual(got, nil) {
		t.Errorf("not used by a volume that has all: %v", got)
	}
}
