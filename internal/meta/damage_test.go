package meta

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func TestOpenUnreadable(t *testing.T) {
	t.Parallel()
	if _, _, err := Open(t.TempDir()); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("a directory: %v, want an error that is not damage", err)
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "no", "meta.db")); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("no directory: %v, want an error that is not damage", err)
	}
}

// used closes db, and returns the content of its file without the reserve.
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
				t.Errorf("the new database has %d volumes, want none", len(state.Volumes))
			}
		})
	}
}

// TestBitFlips checks that Open neither panics nor hangs if a bit of the file flips. Open may miss a
// flip within a value, because BoltDB has no checksums of values.
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
		// Every nineteenth of the first 256 bytes of each page, where BoltDB's structures are.
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
		t.Error("Open noticed no flip")
	}
}
