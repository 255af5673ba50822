// Package testdb opens what all managers of a data directory share. What needs only that is tried without them.
package testdb

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
)

// Data is an open data directory.
type Data struct {
	Root  string
	DB    *meta.DB
	State meta.State // what DB had when it was opened
	Trash *trash.Trash
	Log   *logrus.Logger // which nobody reads
}

// Open opens a data directory, as a plugin that starts. Closing DB is the caller's.
func Open(t testing.TB, root string) Data {
	t.Helper()
	db, state, err := meta.Open(filepath.Join(root, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	bin, err := trash.Open(filepath.Join(root, "trash"), nil)
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	return Data{root, db, state, bin, log}
}

// Records returns what a database has that nobody has open.
func Records(t testing.TB, root string) meta.State {
	t.Helper()
	d := Open(t, root)
	if err := d.DB.Close(); err != nil {
		t.Fatal(err)
	}
	return d.State
}
