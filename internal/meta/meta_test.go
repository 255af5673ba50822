package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

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

// full is one record of each kind with every field set.
func full() State {
	at := time.Date(2024, 5, 1, 12, 0, 0, 123456789, time.UTC)
	size := Measured{disk.Size{Bytes: 1, Inodes: 2}, at}
	return State{
		Volumes: map[string]Volume{"v": {Name: "v", Options: map[string]string{"repo": "https://h/x", "ref": "main"}, CreatedAt: at}},
		Clones: map[string]Clone{"s/1": {
			Key: "s/1", Subject: "s", Repo: "https://h/x", CreatedAt: at, FirstMount: at, Used: at, LFS: size, Caches: map[string]Measured{"0": size},
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
			Commit: "2", Pulled: "1", Reused: true, Leases: map[string]int{"id": 2}, Boot: "b", MountedAt: at,
			Mode: "keep", UID: 1, GID: 2, Restored: true, Options: map[string]string{"ref": "main"}, Metacopy: true, Redirects: true, Orphan: true, EndedAt: at, Size: size, Changed: new(int64),
			Warm: []WarmPath{{Path: "target", Head: "h", From: "g", Chain: []string{"l"}, LeftOut: "why", ReadOnly: true}},
		}, "d": {ID: "d", Phase: Discarded}},
		WarmLayers: map[string]Layer{"s/1/l": {Kind: WarmLayer, Clone: "s/1", ID: "l", Durable: true, Boot: "b", CreatedAt: at, Size: size, Of: []string{"m"}}},
		WarmHeads: map[string]WarmHead{"s/1/h": {
			Clone: "s/1", Key: "h", Path: "target", UID: 1, GID: 2, Ref: "refs/heads/main", Text: "k", Chain: []string{"l"}, MovedAt: at, Used: at,
		}},
	}
}

// put writes every record of s.
func put(s State) func(*Tx) error { return func(tx *Tx) error { return tx.Put(s) } }

func empty() State {
	return State{map[string]Volume{}, map[string]Clone{}, map[string]Layer{}, map[string]Layer{}, map[string]Workspace{}, map[string]Layer{}, map[string]WarmHead{}}
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
			tx.DeleteLayer(want.WarmLayers["s/1/l"]), tx.DeleteWarmHead(want.WarmHeads["s/1/h"]), tx.DeleteVolume("unknown"))
	}); err != nil {
		t.Fatal(err)
	}
	reopen(empty())
}

// TestLayersOfBefore: layers are read, and written, as when those of each kind had a
// type of their own.
func TestLayersOfBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	before := map[string]map[string]string{
		"trees": {"s/1/t": `{"clone":"s/1","id":"t","chain":["t","u"],"commit":"2","tracks_cache":true,"modules":"m","store":"full",` +
			`"durable":true,"boot":"b","created_at":"2024-05-01T12:00:00.123456789Z","used":"2024-05-01T12:00:00.123456789Z",` +
			`"size":{"bytes":1,"inodes":2,"at":"2024-05-01T12:00:00.123456789Z"}}`},
		"gitlayers": {
			"s/1/g": `{"clone":"s/1","id":"g","commit":"2","store":"","snapshot":"abc","boot":"b","created_at":"2024-05-01T12:00:00.123456789Z"}`,
		},
		"warmlayers": {"s/1/l": `{"clone":"s/1","id":"l","durable":true,"boot":"b","created_at":"2024-05-01T12:00:00.123456789Z",` +
			`"size":{"bytes":1,"inodes":2,"at":"2024-05-01T12:00:00.123456789Z"},"of":["m"]}`},
	}
	if err := db.bolt.Update(func(tx *bbolt.Tx) error {
		for bucket, records := range before {
			for key, data := range records {
				if err := tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(data)); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	db.Close()
	db, got := open(t, path)
	want := full()
	if !reflect.DeepEqual(got.Trees, want.Trees) || !reflect.DeepEqual(got.GitLayers, want.GitLayers) || !reflect.DeepEqual(got.WarmLayers, want.WarmLayers) {
		t.Errorf("\n got %+v\n     %+v\n     %+v\nwant %+v\n     %+v\n     %+v", got.Trees, got.GitLayers, got.WarmLayers,
			want.Trees, want.GitLayers, want.WarmLayers)
	}
	if err := db.Update(put(got)); err != nil {
		t.Fatal(err)
	}
	fields := func(data []byte) map[string]any {
		m := make(map[string]any)
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		if m["store"] == "" { // which may be left out
			delete(m, "store")
		}
		return m
	}
	if err := db.bolt.View(func(tx *bbolt.Tx) error {
		for bucket, records := range before {
			for key, data := range records {
				if now := tx.Bucket([]byte(bucket)).Get([]byte(key)); !reflect.DeepEqual(fields(now), fields([]byte(data))) {
					t.Errorf("%s %s is written as\n%s, and was\n%s", bucket, key, now, data)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestCopySharesNothing(t *testing.T) {
	t.Parallel()
	a := full().Clones["s/1"]
	b := a.Copy()
	b.Stores["full"].Refs["other"] = Resolution{}
	if _, ok := a.Stores["full"].Refs["other"]; ok {
		t.Error("a copy shares its refs")
	}
	b.Stores["other"] = Store{}
	if _, ok := a.Stores["other"]; ok {
		t.Error("a copy shares its stores")
	}
}

// TestOpenInUse waits out openTimeout.
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

func TestOpenNewer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	if err := db.bolt.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte("3")) }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path); !errors.Is(err, ErrVersion) || errors.Is(err, ErrDamaged) {
		t.Errorf("a newer schema: %v, want ErrVersion", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("the file has changed")
	}
}

// TestMigrate: a workspace of version 1 had no state; one without leases had ended.
func TestMigrate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	err := db.bolt.Update(func(tx *bbolt.Tx) error {
		return errors.Join(
			tx.Bucket(metaBucket).Put(versionKey, []byte("1")),
			tx.DeleteBucket([]byte(warmLayers)), tx.DeleteBucket([]byte(warmHeads)),
			tx.Bucket([]byte(workspaces)).Put([]byte("live"), []byte(`{"id":"live","clone":"s/1","leases":{"a":1}}`)),
			tx.Bucket([]byte(workspaces)).Put([]byte("gone"), []byte(`{"id":"gone","clone":"s/1"}`)),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a migrated one is opened as it is
		db.Close()
		var state State
		db, state = open(t, path)
		want := map[string]Workspace{
			"live": {ID: "live", Clone: "s/1", Mode: "private", Leases: map[string]int{"a": 1}},
			"gone": {ID: "gone", Clone: "s/1", Mode: "private", Phase: Ended},
		}
		if !reflect.DeepEqual(state.Workspaces, want) {
			t.Errorf("\n got %+v\nwant %+v", state.Workspaces, want)
		}
	}
}

func TestOpenUnreadable(t *testing.T) {
	t.Parallel()
	if _, _, err := Open(t.TempDir()); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("a directory: %v, want an error that is not damage", err)
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "no", "meta.db")); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("no directory: %v, want an error that is not damage", err)
	}
}

// used closes db, and returns its file without the reserve.
func used(t *testing.T, db *DB) []byte {
	t.Helper()
	path, size := db.bolt.Path(), int64(0)
	if err := errors.Join(db.bolt.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil }), db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data[:size]
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	many := full()
	for i := range 300 {
		name := fmt.Sprint("volume ", i)
		many.Volumes[name] = Volume{Name: name, Options: map[string]string{"repo": strings.Repeat("x", 200)}}
	}
	if err := db.Update(put(many)); err != nil {
		t.Fatal(err)
	}
	page := db.bolt.Info().PageSize
	good := used(t, db)
	garbage := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*7 + i>>8)
		}
		return b
	}
	overwrite := func(from, to int, with byte) []byte {
		b := append([]byte(nil), good...)
		for i := from; i < to; i++ {
			b[i] = with
		}
		return b
	}
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"emptied", nil},
		{"one byte", []byte{0}},
		{"a page", good[:page]},
		{"two pages", good[:2*page]},
		{"four pages", good[:4*page]},
		{"half", good[:len(good)/2]},
		{"garbage", garbage(len(good))},
		{"little garbage", garbage(100)},
		{"text", []byte(strings.Repeat("not a database\n", 5000))},
		{"zeros", make([]byte, len(good))},
		{"both meta pages gone", overwrite(0, 2*page, 0xff)},
		{"all but the meta pages zero", overwrite(2*page, len(good), 0)},
		{"all but the meta pages 0xff", overwrite(2*page, len(good), 0xff)},
		{"values are no JSON", []byte(strings.ReplaceAll(string(good), `{"name"`, `{{name"`))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "meta.db")
			if err := os.WriteFile(path, tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, state, err := Open(path)
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("Open: %v with %d volumes; want ErrDamaged", err, len(state.Volumes))
			}
			aside, err := SetAside(path, time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC))
			if want := "meta.db.damaged-20240501T120000.000000000"; err != nil || aside != want {
				t.Fatalf("SetAside: %q, %v; want %q", aside, err, want)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), aside)); err != nil {
				t.Error(err)
			}
			if _, state := open(t, path); len(state.Volumes) != 0 {
				t.Errorf("a new one has %d volumes", len(state.Volumes))
			}
		})
	}
}

// TestBitFlips: whatever bit of the file flips, Open neither dies nor hangs. It
// may miss one within a value: BoltDB keeps no checksum of those.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	if err := db.Update(put(full())); err != nil {
		t.Fatal(err)
	}
	page := db.bolt.Info().PageSize
	good := used(t, db)
	damaged := 0
	for at := range good {
		// Where structure is: the first 256 bytes of each page, every nineteenth.
		if at%page >= 256 || at%19 != 0 {
			continue
		}
		flipped := append([]byte(nil), good...)
		flipped[at] ^= 0x40
		path := filepath.Join(filepath.Dir(path), "flipped.db")
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		db, _, err := Open(path)
		switch {
		case err == nil:
			db.Close()
		case errors.Is(err, ErrDamaged), errors.Is(err, ErrVersion):
			damaged++
		default:
			t.Errorf("byte %d: %v", at, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if damaged == 0 {
		t.Error("no flip was noticed")
	}
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

// A workspace that can't be has no record.
func TestImpossibleWorkspaces(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "meta.db"))
	for phase, allowed := range map[Phase]struct{ free, leased bool }{
		Making: {false, false}, Mounted: {true, true}, Parked: {true, false}, Ended: {true, false}, Discarded: {true, false},
	} {
		for _, leases := range []map[string]int{nil, {"id": 1}} {
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
