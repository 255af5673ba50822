package meta

import (
	"errors"

	"go.etcd.io/bbolt"
)

// call is a pending change.
type call struct {
	f    func(tx *Tx) error
	done chan error // one answer
}

// errAlone tells a call that it needs a transaction of its own.
var errAlone = errors.New("alone")

// Update commits the changes that f makes: all of them or, if f fails, none. It returns
// when they are on disk. Concurrent changes share a commit, so another goroutine may call
// f, and f may be called twice, the first call without effect.
func (db *DB) Update(f func(tx *Tx) error) error {
	c := &call{f: f, done: make(chan error, 1)}
	db.mu.Lock()
	db.waiting = append(db.waiting, c)
	db.mu.Unlock()
	var err error
	select {
	case err = <-c.done:
	case db.lead <- struct{}{}:
		db.mu.Lock()
		batch := db.waiting
		db.waiting = nil
		db.mu.Unlock()
		db.commit(batch)
		<-db.lead
		err = <-c.done // from this commit, or the one before
	}
	if err == errAlone {
		return db.bolt.Update(func(tx *bbolt.Tx) error { return f(&Tx{tx}) })
	}
	return err
}

// commit commits all calls together, or, if one fails, tells each to commit on its own.
// The caller holds db.lead.
func (db *DB) commit(batch []*call) {
	if len(batch) == 0 {
		return
	}
	err := errAlone // stays if a call panics, as it will again in its own Update
	func() {
		defer func() { _ = recover() }()
		err = db.bolt.Update(func(tx *bbolt.Tx) error {
			for _, c := range batch {
				if err := c.f(&Tx{tx}); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	if err != nil && len(batch) > 1 {
		err = errAlone
	}
	for _, c := range batch {
		c.done <- err
	}
	if err == nil {
		// Without a reserve, go on while there is room.
		_ = db.extendReserve()
	}
}
