package meta

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// TestLayersInOldFormat checks that layers are read and written in the format from when each kind of
// layer had its own type.
func TestLayersInOldFormat(t *testing.T) {
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
		if m["store"] == "" { // an empty store may be left out
			delete(m, "store")
		}
		return m
	}
	if err := db.bolt.View(func(tx *bbolt.Tx) error {
		for bucket, records := range before {
			for key, data := range records {
				if now := tx.Bucket([]byte(bucket)).Get([]byte(key)); !reflect.DeepEqual(fields(now), fields([]byte(data))) {
					t.Errorf("%s %s is written as\n%s, want\n%s", bucket, key, now, data)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestClonesOfBefore checks that the record of a clone is read that was written before records
// had what was mounted.
func TestClonesOfBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	if err := db.bolt.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(clones)).Put([]byte("s/1"), []byte(`{"key":"s/1","subject":"s","repo":"https://h/x",`+
			`"created_at":"2024-05-01T12:00:00Z","stores":{"full":{"format":"sha1","cloned_at":"2024-05-01T12:00:00Z","snapshot":"abc",`+
			`"fetched_at":"2024-05-01T12:00:00Z"}}}`))
	}); err != nil {
		t.Fatal(err)
	}
	db.Close()
	db, state := open(t, path)
	if c, ok := state.Clones["s/1"]; !ok || c.Recent != nil || c.Stores["full"].Snapshot != "abc" {
		t.Errorf("got %+v", state.Clones)
	}
	c := state.Clones["s/1"]
	c.Recent = full().Clones["s/1"].Recent
	if err := db.Update(func(tx *Tx) error { return tx.PutClone(c) }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if _, state = open(t, path); !reflect.DeepEqual(state.Clones["s/1"], c) {
		t.Errorf("got %+v, want %+v", state.Clones["s/1"], c)
	}
}

func TestOpenNewer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	if err := db.bolt.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte("4")) }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path); !errors.Is(err, ErrVersion) || errors.Is(err, ErrDamaged) {
		t.Errorf("Open of a newer schema: %v, want ErrVersion", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("the file has changed")
	}
}

// TestMigrateCounts migrates from version 2, which had a number of mounts for each mount ID.
func TestMigrateCounts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	if err := db.bolt.Update(func(tx *bbolt.Tx) error {
		return errors.Join(
			tx.Bucket(metaBucket).Put(versionKey, []byte("2")),
			tx.Bucket([]byte(workspaces)).Put([]byte("w"), []byte(`{"id":"w","clone":"s/1","mode":"shared","leases":{"b":3,"a":1}}`)),
			tx.Bucket([]byte(workspaces)).Put([]byte("d"), []byte(`{"id":"d","clone":"s/1","mode":"keep","state":"parked"}`)),
		)
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]Workspace{
		"w": {ID: "w", Clone: "s/1", Mode: "shared", Leases: Leases{"a", "b", "b#2", "b#3"}},
		"d": {ID: "d", Clone: "s/1", Mode: "keep", Phase: Parked},
	}
	for range 2 {
		db.Close()
		var state State
		if db, state = open(t, path); !reflect.DeepEqual(state.Workspaces, want) {
			t.Errorf("\n got %+v\nwant %+v", state.Workspaces, want)
		}
	}
	var stored string
	if err := db.bolt.View(func(tx *bbolt.Tx) error {
		stored = string(tx.Bucket([]byte(workspaces)).Get([]byte("w")))
		return nil
	}); err != nil || !strings.Contains(stored, `"leases":["a","b","b#2","b#3"]`) {
		t.Errorf("stored: %s, %v", stored, err)
	}
}

// TestMigrate migrates from version 1, in which a workspace had no phase. A workspace without leases
// had ended.
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
	for range 2 { // the second Open finds a migrated database
		db.Close()
		var state State
		db, state = open(t, path)
		want := map[string]Workspace{
			"live": {ID: "live", Clone: "s/1", Mode: "private", Leases: Leases{"a"}},
			"gone": {ID: "gone", Clone: "s/1", Mode: "private", Phase: Ended},
		}
		if !reflect.DeepEqual(state.Workspaces, want) {
			t.Errorf("\n got %+v\nwant %+v", state.Workspaces, want)
		}
	}
}
