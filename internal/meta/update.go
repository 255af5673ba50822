package meta

import (
	"errors"

	"go.etcd.io/bbolt"
)

// call is a change that waits to be committed.
type call struct {
	f    func(tx *Tx) error
	done chan error // one answer
}

// errAlone is the answer to a call that has to be made on its own.
var errAlone = errors.New("alone")

// Update commits what f does, all of it or, when f fails, nothing. It returns
// when the change is on disk. Changes that come while another one is being
// committed share the next commit; so f may be called twice, and by another
// goroutine, with nothing kept of the first call.
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
		err = <-c.done // by us, or by the one before us
	}
	if err == errAlone {
		return db.bolt.Update(func(tx *bbolt.Tx) error { return f(&Tx{tx}) })
	}
	return err
}

// commit makes one commit of all calls, or tells each to make its own when one of
// them fails. It has db.lead.
func (db *DB) commit(batch []*call) {
	if len(batch) == 0 {
		return
	}
	err := db.try(batch)
	if err != nil && len(batch) > 1 {
		err = errAlone
	}
	for _, c := range batch {
		c.done <- err
	}
	if err == nil {
		// Without a reserve we go on as long as there is room.
		_ = db.keep()
	}
}

func (db *DB) try(batch []*call) (err error) {
	defer func() {
		if recover() != nil {
			err = errAlone // it panics once more where it belongs
		}
	}()
	return db.bolt.Update(func(tx *bbolt.Tx) error {
		for _, c := range batch {
			if err := c.f(&Tx{tx}); err != nil {
				return err
			}
		}
		return nil
	})
}
