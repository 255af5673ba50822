// Package quota has the limits of subjects: the settings, and what an operator has set for
// single subjects instead.
//
// Callers may rely on this: Set returns when the limits are on disk, and they apply from
// then on to subjects without clones too. Reading them does no I/O.
package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Limits are the limits of a subject. Zero means no limit.
type Limits struct {
	MaxSize   int64 // of its clones, in bytes
	MaxLeases int   // mounts at a time
}

// most bounds how many subjects have limits of their own, because all are in memory.
const most = 100_000

// Quota has the limits of all subjects. It is safe for concurrent use.
type Quota struct {
	db       *meta.DB
	settings Limits

	setting sync.Mutex              // held by Set, also while it commits
	mu      sync.Mutex              // guards own; never held over I/O
	own     map[string]meta.Subject // by the directory of the subject, which a clone's key has
}

// New returns the limits that records has, as meta.State has them. settings apply to all
// other subjects.
func New(db *meta.DB, settings Limits, records map[string]meta.Subject) *Quota {
	q := &Quota{db: db, settings: settings, own: make(map[string]meta.Subject)}
	for name, rec := range records {
		q.own[volume.Subject(name).Dir()] = rec
	}
	return q
}

// InvalidError says why limits were refused.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return e.Reason }

// Set replaces the limits of rec.Name: a limit that is nil is that of the settings again. The
// error is an *InvalidError, a *volume.OptionError for the name, or that of the database:
// then nothing has changed.
func (q *Quota) Set(rec meta.Subject) error {
	subject, err := volume.ParseSubject(rec.Name)
	switch {
	case err != nil:
		return err
	case rec.MaxSize != nil && *rec.MaxSize < 0:
		return &InvalidError{fmt.Sprintf("max_size %d: allowed is 0 for no limit, a number of bytes, or null for SUBJECT_MAX_SIZE", *rec.MaxSize)}
	case rec.MaxLeases != nil && *rec.MaxLeases < 0:
		return &InvalidError{fmt.Sprintf("max_leases %d: allowed is 0 for no limit, a number of mounts, or null for SUBJECT_MAX_LEASES", *rec.MaxLeases)}
	}
	q.setting.Lock() // the record and the memory change in the same order
	defer q.setting.Unlock()
	key, none := subject.Dir(), rec.MaxSize == nil && rec.MaxLeases == nil
	q.mu.Lock()
	_, known := q.own[key]
	full := len(q.own) >= most
	q.mu.Unlock()
	if full && !known && !none {
		return &InvalidError{fmt.Sprintf("%d subjects have limits of their own, and more are not allowed: set those of another subject to null", most)}
	}
	if err := q.db.Update(func(tx *meta.Tx) error {
		if none {
			return tx.DeleteSubject(rec.Name)
		}
		return tx.PutSubject(rec)
	}); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if none {
		delete(q.own, key)
	} else {
		q.own[key] = rec
	}
	return nil
}

// Settings returns the limits of subjects without limits of their own.
func (q *Quota) Settings() Limits { return q.settings }

// Own returns the limits that a subject has instead of the settings, nil where it has none.
func (q *Quota) Own(name string) meta.Subject {
	q.mu.Lock()
	defer q.mu.Unlock()
	rec := q.own[volume.Subject(name).Dir()]
	rec.Name = name
	return rec
}

// List returns all limits that subjects have instead of the settings, sorted by name.
func (q *Quota) List() []meta.Subject {
	q.mu.Lock()
	list := slices.Collect(maps.Values(q.own))
	q.mu.Unlock()
	slices.SortFunc(list, func(a, b meta.Subject) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// MaxLeases returns how many mounts the subject with a directory may have at a time; zero
// means any number. own is set if that is no setting.
func (q *Quota) MaxLeases(dir string) (n int, own bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if rec, ok := q.own[dir]; ok && rec.MaxLeases != nil {
		return *rec.MaxLeases, true
	}
	return q.settings.MaxLeases, false
}

// MaxSize is MaxLeases for the bytes that the subject may hold.
func (q *Quota) MaxSize(dir string) (n int64, own bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if rec, ok := q.own[dir]; ok && rec.MaxSize != nil {
		return *rec.MaxSize, true
	}
	return q.settings.MaxSize, false
}

// Sizes returns the maximum sizes in bytes, by subject, of those that have one of their own.
func (q *Quota) Sizes() map[string]int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	sizes := make(map[string]int64)
	for _, rec := range q.own {
		if rec.MaxSize != nil {
			sizes[rec.Name] = *rec.MaxSize
		}
	}
	return sizes
}
