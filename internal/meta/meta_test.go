package meta

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

func open(t *testing.T, path string) (*DB, State) {
	t.Helper()
	db, state, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, state
}

// full returns a record of each kind, with every field set.
func full() State {
	at := time.Date(2024, 5, 1, 12, 0, 0, 123456789, time.UTC)
	size := Measured{disk.Size{Bytes: 1, Inodes: 2}, at}
	return State{
		Volumes: map[string]Volume{"v": {Name: "v", Options: map[string]string{"repo": "https://h/x", "ref": "main"}, CreatedAt: at}},
		Clones: map[string]Clone{"s/1": {
			Key: "s/1", Subject: "s", Repo: "https://h/x", CreatedAt: at, FirstMount: at, Used: at, LFS: size,
			Recent: []Recent{{Options: OptionsOf(map[string]string{"repo": "https://h/x", "credential": "c"}), At: at}},
			Stores: map[string]Store{"full": {
				Format: "sha1", ClonedAt: at, Snapshot: "abc", Head: "refs/heads/main", FetchedAt: at, Size: size, Refs: map[string]Resolution{
					"main": {Ref: "refs/heads/main", Pulled: "1", Commit: "2", At: at}, "HEAD": {Pulled: "3", Commit: "3", At: at},
				},
			}},
		}},
		Trees: map[string]Layer{"s/1/t": {
			Kind: Tree, Clone: "s/1", ID: "t", Chain: []string{"t", "u"}, Commit: "2", TracksCache: true, Modules: "m", Store: "full", Durable: true, Boot: "b", CreatedAt: at,
			Used: at, Size: size,
		}},
		GitLayers: map[string]Layer{"s/1/g": {Kind: GitLayer, Clone: "s/1", ID: "g", Commit: "2", Snapshot: "abc", Boot: "b", CreatedAt: at}},
		Workspaces: map[string]Workspace{"w": {
			ID: "w", Clone: "s/1", Volume: "v", Tree: "t", Chain: []string{"t", "u"}, GitLayer: "g", Ref: "refs/heads/main",
			Commit: "2", Pulled: "1", Reused: true, Leases: Leases{"id", "id#2"}, Boot: "b", MountedAt: at,
			Mode: "keep", UID: 1, GID: 2, From: []string{"d"}, Options: map[string]string{"ref": "main"}, Metacopy: true, Orphan: true, EndedAt: at, Size: size, Changed: new(int64),
			Warm: []WarmPath{{Path: "target", Head: "h", From: "g", Chain: []string{"l"}, LeftOut: "why"}},
		}, "d": {ID: "d", Phase: Checkpoint}},
		WarmLayers: map[string]Layer{"s/1/l": {Kind: WarmLayer, Clone: "s/1", ID: "l", Durable: true, Boot: "b", CreatedAt: at, Size: size, Of: []string{"m"}}},
		WarmHeads: map[string]WarmHead{"s/1/h": {
			Clone: "s/1", Key: "h", Path: "target", UID: 1, GID: 2, Ref: "refs/heads/main", Text: "k", Chain: []string{"l"}, Built: Built{"c", at, "label"}, Used: at,
		}},
		Subjects: map[string]Subject{"team a/b": {Name: "team a/b", MaxSize: new(int64(5)), MaxLeases: new(0)}},
		Publications: map[string]Publication{"/k/pods/u/mount": {
			Target: "/k/pods/u/mount", Volume: "v", Lease: "l", ReadOnly: true, At: at,
			Pod: Pod{Namespace: "n", Name: "p", UID: "u", ServiceAccount: "s"},
		}},
		Events: map[string]Event{"0000000000000000007": {Seq: 7, Time: at, Type: "evicted", Kind: "cache", Text: "why"}},
	}
}

// put writes every record of s.
func put(s State) func(*Tx) error { return func(tx *Tx) error { return tx.Put(s) } }

func empty() State {
	return State{map[string]Volume{}, map[string]Clone{}, map[string]Layer{}, map[string]Layer{}, map[string]Workspace{}, map[string]Layer{}, map[string]WarmHead{}, map[string]Subject{}, map[string]Publication{}, map[string]Event{}}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, got := open(t, path)
	if want := empty(); !reflect.DeepEqual(got, want) {
		t.Errorf("a new database\n got %+v\nwant %+v", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v; want 0600", info, err)
	}
	want := full()
	if err := db.Update(put(want)); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if err := db.Update(func(tx *Tx) error { return errors.Join(tx.DeleteVolume("v"), refused) }); !errors.Is(err, refused) {
		t.Errorf("Update: %v, want the function's error", err)
	}
	reopen := func(want State) {
		t.Helper()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		var got State
		if db, got = open(t, path); !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	}
	reopen(want)
	if err := db.Update(func(tx *Tx) error {
		return errors.Join(tx.DeleteVolume("v"), tx.DeleteClone("s/1"), tx.DeleteLayer(want.Trees["s/1/t"]),
			tx.DeleteLayer(want.GitLayers["s/1/g"]), tx.DeleteWorkspace("w"), tx.DeleteWorkspace("d"),
			tx.DeleteLayer(want.WarmLayers["s/1/l"]), tx.DeleteWarmHead(want.WarmHeads["s/1/h"]), tx.DeleteSubject("team a/b"), tx.DeletePublication("/k/pods/u/mount"), tx.DeleteEvent(Event{Seq: 7}), tx.DeleteVolume("unknown"))
	}); err != nil {
		t.Fatal(err)
	}
	reopen(empty())
}

func TestCopySharesNothing(t *testing.T) {
	t.Parallel()
	a := full().Clones["s/1"]
	b := a.Copy()
	b.Stores["full"].Refs["other"] = Resolution{}
	if _, ok := a.Stores["full"].Refs["other"]; ok {
		t.Error("a copy shares its refs")
	}
	b.Recent[0].At = time.Time{}
	if a.Recent[0].At.IsZero() {
		t.Error("a copy shares what was mounted lately")
	}
	b.Stores["other"] = Store{}
	if _, ok := a.Stores["other"]; ok {
		t.Error("a copy shares its stores")
	}
}

// TestOpenInUse waits for openTimeout.
func TestOpenInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	if _, _, err := Open(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("open twice: %v, want ErrInUse with the path", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestConcurrentUpdates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	const n = 50
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := fmt.Sprint(i)
			if err := db.Update(func(tx *Tx) error { return tx.PutVolume(Volume{Name: name}) }); err != nil {
				t.Error(err)
			}
			if i%2 == 1 {
				if err := db.Update(func(tx *Tx) error { return tx.DeleteVolume(name) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	db.Close()
	if _, state := open(t, path); len(state.Volumes) != n/2 {
		t.Errorf("%d volumes, want %d", len(state.Volumes), n/2)
	}
}

// TestImpossibleWorkspaces checks that a workspace in an impossible state can't be recorded.
func TestImpossibleWorkspaces(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "meta.db"))
	for phase, allowed := range map[Phase]struct{ free, leased bool }{
		Making: {false, false}, Mounted: {true, true}, Parked: {true, false}, Ended: {true, false}, Checkpoint: {true, false},
	} {
		for _, leases := range []Leases{nil, {"id"}} {
			want := allowed.free
			if leases != nil {
				want = allowed.leased
			}
			w := Workspace{ID: "w", Phase: phase, Leases: leases}
			if err := db.Update(func(tx *Tx) error { return tx.PutWorkspace(w) }); (err == nil) != want {
				t.Errorf("%s with leases %v: %v, want a record: %v", phase, leases, err, want)
			}
		}
	}
}
