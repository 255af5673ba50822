package meta

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// BoltDB writes every change to other pages than those it replaces, so deleting
// takes room too: pages at the end of the file, whose blocks are given to it in
// advance. The reserve is a 64th of the filesystem within these bounds. A change
// takes some 20 KB, a thousand deletions at once a few MB, and the pages that it
// frees are those of the next one.
const (
	minReserve = 256 << 10
	maxReserve = 16 << 20
)

// reserveRetry is how long no reserve is asked for after there was no room.
const reserveRetry = time.Minute

// Reserve sees to it that changes can be committed on a full disk. Open and
// Update do it as long as there is room; it is to be called when there is room
// again. The error is that of the filesystem.
func (db *DB) Reserve() error {
	db.lead <- struct{}{}
	defer func() { <-db.lead }()
	db.refused = time.Time{}
	return db.keep()
}

// keep extends the blocks of the file when less than half of the reserve is left.
// It has db.lead, or db is new.
func (db *DB) keep() error {
	var used int64
	if err := db.bolt.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil }); err != nil {
		return err
	}
	if db.allocated-used >= db.reserve/2 || time.Since(db.refused) < reserveRetry {
		return nil
	}
	f, err := os.OpenFile(db.bolt.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size := used + db.reserve
	for {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err == nil:
		db.allocated = size
	case errors.Is(err, unix.EOPNOTSUPP): // a filesystem without
		db.allocated = 1 << 62
	default:
		db.refused = time.Now()
		return fmt.Errorf("reserve %d bytes in %s: %w", db.reserve, db.bolt.Path(), err)
	}
	return nil
}

// reserveOf is the reserve for a database at path.
func reserveOf(path string) int64 {
	space, err := disk.SpaceOf(filepath.Dir(path))
	if err != nil {
		return minReserve
	}
	return min(max(space.Total.Bytes/64, minReserve), maxReserve)
}
