package meta

import (
	"time"

	"go.etcd.io/bbolt"

	"github.com/helmdeck/repos/internal/disk"
)

// BoltDB never overwrites pages, so deleting takes room too: pages at the end of the
// file, whose blocks are allocated in advance. A change takes some 20 KB, a thousand
// deletions at once a few MB, and the next change reuses the pages that it frees.

// reserveRetry is how long extendReserve waits after there was no room.
const reserveRetry = time.Minute

// extendReserve allocates more blocks when less than half of the reserve is left. The caller holds
// db.lead, unless db is new. The error is the filesystem's.
func (db *DB) extendReserve() error {
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
