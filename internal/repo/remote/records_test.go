package remote

import (
	"reflect"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// set sets the format in the record of a store.
func set(c *Records, name, format string) (undo func()) {
	undo, _ = c.change(name, func(store meta.Store, _ bool) (meta.Store, bool) {
		store.Format = format
		return store, true
	})
	return undo
}

// undo restores records, unless Forget was called meanwhile.
func TestUndo(t *testing.T) {
	formats := func(c *Records) map[string]string {
		m := make(map[string]string)
		for name, store := range c.Stores() {
			m[name] = store.Format
		}
		return m
	}
	for _, tt := range []struct {
		name   string
		change func(c *Records) (undo func())
		now    map[string]string
	}{
		{"change", func(c *Records) func() { return set(c, "a", "new") }, map[string]string{"a": "new", "b": "2"}},
		{"another store", func(c *Records) func() { return set(c, "c", "3") }, map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"remove", func(c *Records) func() { return c.remove("a", "unknown") }, map[string]string{"b": "2"}},
		{"forget", func(c *Records) func() { return c.Forget() }, map[string]string{}},
	} {
		for _, forgotten := range []bool{false, true} {
			c := newRecords(time.Now, map[string]meta.Store{"a": {Format: "1"}, "b": {Format: "2"}})
			undo := tt.change(&c)
			if got := formats(&c); !reflect.DeepEqual(got, tt.now) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.now)
			}
			want := map[string]string{"a": "1", "b": "2"}
			if forgotten && tt.name != "forget" {
				c.Forget()
				want = map[string]string{}
			}
			undo()
			if got := formats(&c); !reflect.DeepEqual(got, want) || c.Fetched() != (len(want) > 0) {
				t.Errorf("%s, undone, forgotten %v: %v, want %v", tt.name, forgotten, got, want)
			}
		}
	}
	c := newRecords(time.Now, nil)
	undo := set(&c, "a", "1")
	if undo(); c.Fetched() || c.Stores() != nil {
		t.Error("the first fetch, undone, has left something")
	}
	undo = set(&c, "a", "1")
	set(&c, "b", "2")
	undo()
	if got, want := formats(&c), map[string]string{"b": "2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the first fetch, undone after the one of another store: %v, want %v", got, want)
	}
	c.Forget()
	set(&c, "a", "1")
	if c.remove("a"); !c.Fetched() || c.HasStore("a.git") {
		t.Error("without its only store, want that something was fetched")
	}
}

// A caller cannot change the records through their copies.
func TestRecordsAreCopies(t *testing.T) {
	c := newRecords(time.Now, map[string]meta.Store{"full": {}})
	for _, refs := range []map[string]meta.Resolution{c.Stores()["full"].Refs, func() map[string]meta.Resolution {
		store, _ := c.Store(volume.History{})
		return store.Refs
	}()} {
		refs["main"] = meta.Resolution{}
	}
	if store, ok := c.Store(volume.History{}); !ok || len(store.Refs) > 0 {
		t.Errorf("%+v, %v", store, ok)
	}
	for dir, want := range map[string]bool{"full.git": true, "full": false, "full.git.git": false, ".tmp-1": false} {
		if got := c.HasStore(dir); got != want {
			t.Errorf("HasStore(%q) = %v", dir, got)
		}
	}
}

// RetainRef and ReleaseRef count, separately for each history.
func TestRetainRef(t *testing.T) {
	now := time.Now()
	c := newRecords(func() time.Time { return now }, map[string]meta.Store{"full": {}})
	ref, err := volume.ParseRef("main")
	if err != nil {
		t.Fatal(err)
	}
	s := Source{Ref: ref}
	shallow := s
	shallow.History.Depth = 1
	for _, step := range []struct {
		do   func(Source)
		of   Source
		keep bool
	}{
		{c.RetainRef, shallow, false}, {c.RetainRef, s, true}, {c.RetainRef, s, true}, {c.ReleaseRef, s, true},
		{c.ReleaseRef, shallow, true}, {c.ReleaseRef, s, false},
	} {
		step.do(step.of)
		for age, keep := range map[time.Duration]bool{refTTL: true, refTTL + 1: step.keep} {
			refs := map[string]meta.Resolution{"main": {At: now.Add(-age)}}
			c.mu.Lock()
			c.expireLocked("full", refs)
			c.mu.Unlock()
			if (len(refs) > 0) != keep {
				t.Errorf("after %v the ref is kept: %v, want %v", age, len(refs) > 0, keep)
			}
		}
	}
	if len(c.retained) > 0 {
		t.Errorf("left: %v", c.retained)
	}
}
