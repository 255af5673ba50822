// Package testdb opens a data directory's database and trash, which all managers share, for tests
// that need no manager.
package testdb

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/meta"
)

// Data is an open data directory.
type Data struct {
	Root  string
	DB    *meta.DB
	State meta.State // what DB had when it was opened
	Trash *trash.Trash
	Log   *logrus.Logger // checkpoints everything
}

// Open opens a data directory as a plugin does at its start. The caller closes DB.
func Open(t testing.TB, root string) Data {
	t.Helper()
	d := Data{Root: root, Log: logrus.New()}
	d.Log.SetOutput(io.Discard)
	var err error
	if d.DB, d.State, err = meta.Open(filepath.Join(root, "meta.db")); err != nil {
		t.Fatal(err)
	}
	if d.Trash, err = trash.Open(filepath.Join(root, "trash"), nil, nil); err != nil {
		t.Fatal(err)
	}
	return d
}

// Records returns the records of a database that is not open elsewhere.
func Records(t testing.TB, root string) meta.State {
	t.Helper()
	d := Open(t, root)
	if err := d.DB.Close(); err != nil {
		t.Fatal(err)
	}
	return d.State
}
