package meta

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.etcd.io/bbolt"
)

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
