package quota

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

func open(t *testing.T, path string) (*meta.DB, *Quota) {
	t.Helper()
	db, state, err := meta.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, New(db, Limits{MaxSize: 100, MaxLeases: 5}, state.Subjects)
}

// TestSet checks that limits take the place of the settings one by one, survive a restart,
// and end with null.
func TestSet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, q := open(t, path)
	long := strings.Repeat("ü", 128) // has a directory that is a hash
	for _, rec := range []meta.Subject{
		{Name: "team a", MaxSize: new(int64(7))}, {Name: "b/c", MaxLeases: new(0)}, {Name: long, MaxSize: new(int64(0)), MaxLeases: new(2)},
	} {
		if err := q.Set(rec); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, sizes map[string]int64, leases map[string]int) {
		t.Helper()
		if got := q.Sizes(); !maps.Equal(got, sizes) {
			t.Errorf("%s: sizes %v, want %v", when, got, sizes)
		}
		for name, want := range leases {
			if got, own := q.MaxLeases(volume.Subject(name).Dir()); got != want || own != (want != 5) {
				t.Errorf("%s: %q may have %d leases (own: %t), want %d", when, name, got, own, want)
			}
		}
	}
	for _, when := range []string{"set", "after a restart"} {
		check(when, map[string]int64{"team a": 7, long: 0}, map[string]int{"team a": 5, "b/c": 0, long: 2, "other": 5})
		if list := q.List(); len(list) != 3 || list[0].Name != "b/c" || list[1].Name != "team a" {
			t.Errorf("%s: %+v", when, list)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db, q = open(t, path)
	}
	if err := errors.Join(q.Set(meta.Subject{Name: "team a"}), q.Set(meta.Subject{Name: long, MaxLeases: new(3)}), q.Set(meta.Subject{Name: "unknown"})); err != nil {
		t.Fatal(err)
	}
	check("removed", map[string]int64{}, map[string]int{"team a": 5, long: 3})
	if got, want := q.Own("team a"), (meta.Subject{Name: "team a"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	db.Close()
	_, q = open(t, path)
	check("removed, after a restart", map[string]int64{}, map[string]int{"team a": 5, long: 3})
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	db, q := open(t, filepath.Join(t.TempDir(), "meta.db"))
	for _, tt := range []struct {
		rec  meta.Subject
		want string
	}{
		{meta.Subject{Name: "a", MaxSize: new(int64(-1))}, "max_size -1: allowed is 0"},
		{meta.Subject{Name: "a", MaxLeases: new(-1)}, "max_leases -1: allowed is 0"},
	} {
		invalid, ok := errors.AsType[*InvalidError](q.Set(tt.rec))
		if !ok || !strings.Contains(invalid.Error(), tt.want) {
			t.Errorf("got %v, want %q", invalid, tt.want)
		}
	}
	if _, ok := errors.AsType[*volume.OptionError](q.Set(meta.Subject{Name: "a\x00"})); !ok {
		t.Error("a wrong name was accepted")
	}
	for i := range most {
		q.own[fmt.Sprint(i)] = meta.Subject{}
	}
	if _, ok := errors.AsType[*InvalidError](q.Set(meta.Subject{Name: "a", MaxLeases: new(1)})); !ok {
		t.Error("more subjects than allowed were accepted")
	}
	if err := q.Set(meta.Subject{Name: "0", MaxLeases: new(1)}); err != nil {
		t.Errorf("a subject that has limits already: %v", err)
	}
	db.Close()
	if err := q.Set(meta.Subject{Name: "1"}); err == nil {
		t.Error("no error of the database")
	} else if _, ok := q.own["1"]; !ok {
		t.Error("the memory has changed although the record has not")
	}
}

// TestSetAtOnce checks that the record and the memory agree after concurrent changes.
func TestSetAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, q := open(t, path)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			rec := meta.Subject{Name: "a"}
			if i%3 > 0 {
				rec.MaxLeases = new(i)
			}
			if err := q.Set(rec); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	want := q.List()
	db.Close()
	if _, q = open(t, path); !reflect.DeepEqual(q.List(), want) {
		t.Errorf("on disk %+v, in memory %+v", q.List(), want)
	}
}
