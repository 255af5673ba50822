package meta

import (
	"time"

	"go.etcd.io/bbolt"

	"github.com/helmdeck/repos/internal/disk"
)

// BoltDB writes every change to other pages than those it replaces, so deleting
// takes room too: pages at the end of the file, whose blocks are given to it in
// advance. A change takes some 20 KB, a thousand deletions at once a few MB, and
// the pages that it frees are those of the next one.

// reserveRetry is how long no reserve is asked for after there was no room.
const reserveRetry = time.Minute

// keep extends the blocks of the file when less than half of the reserve is left.
// It has db.lead, or db is new. The error is that of the filesystem.
func (db *DB) keep() error {
	var used int64
	if err := db.bolt.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil }); err != nil {
		return err
	}
	if db.allocated-used >= db.reserve/2 || time.Since(db.refused) < reserveRetry {
		return nil
	}
	if err := disk.Allocate(db.bolt.Path(), used+db.reserve); err != nil {
		db.refused = time.Now()
		return err
	}
	db.allocated = used + db.reserve
	return nil
}
