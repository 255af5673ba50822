package remote

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Config is what a Remote works with. The functions are its holder's: none is called
// with a mutex held.
type Config struct {
	Dir      string         // what has the stores
	LockFile string         // outside of Dir
	Used     *work.Resource // whose tasks fetches and questions are
	Git      *git.Git
	Trash    *trash.Trash
	Log      *logrus.Entry
	Now      func() time.Time
	// AskTimeout is how long a remote may take to say where a ref stands.
	AskTimeout time.Duration

	// Credential returns what to show to a URL: the credential of a name, or, without
	// one, that whose scope fits best. Nil, nil is none.
	Credential func(url, name string) (*git.Auth, error)
	// WithRoom calls f, and once more after room was made if the disk is full.
	WithRoom func(ctx context.Context, need disk.Size, f func() error) error
	// MakeDir makes Dir, with all that belongs there, before there is a store in it, and
	// RemoveDir removes it if nothing was fetched into it.
	MakeDir   func() error
	RemoveDir func() error
	// Save commits what Stores returns.
	Save func() error
	// Measure is told which stores have changed, by name.
	Measure func(stores ...string)
}

// Remote is one remote repository. It is safe for concurrent use.
type Remote struct {
	Config
	Records
	Doing Activities
	gate  work.Lock // held with the lock file, so that only processes poll for that

	aligning sync.Mutex         // guards aligned; never held over I/O
	aligned  map[string]aligned // by the name of the store
}

// New returns a Remote with the stores that these records name; nil if there are none.
func New(c Config, stores map[string]meta.Store) *Remote {
	return &Remote{Config: c, Records: newRecords(c.Now, stores), aligned: make(map[string]aligned)}
}

// Source says what of a repository is wanted, and how it is asked for.
type Source struct {
	URL     volume.URL // as this volume spells it
	Ref     volume.Ref
	History volume.History
	Refresh volume.Refresh
	// StaleIfError is how long ago the remote may last have agreed for its
	// answer to be used when it does not answer now.
	StaleIfError time.Duration
	Credential   string // the name of one, or empty for the one that fits
	// Pin, of a submodule, are the addresses of its host that were checked.
	Pin []netip.Addr
}

// StoreDir returns the directory of the store of that name.
func (m *Remote) StoreDir(name string) string { return filepath.Join(m.Dir, "store", name+".git") }

// at returns where the repository is, with its credentials.
func (m *Remote) at(s Source) git.Remote {
	return git.Remote{URL: s.URL.String(), Pin: s.Pin, Auth: func(url string) (*git.Auth, error) { return m.Auth(s, url) }}
}

// Auth returns the credential for a URL that belongs to the repository.
func (m *Remote) Auth(s Source, url string) (*git.Auth, error) {
	return m.Credential(url, s.Credential)
}

// Ahead returns how many commits a commit has in its history that another one has
// not, as far as the store of s knows.
func (m *Remote) Ahead(ctx context.Context, s Source, commit, of string) (int, error) {
	return m.Git.Ahead(ctx, m.StoreDir(s.History.Name()), commit, of)
}

// ErrFetched says that the store was fetched between a resolution and the use of it.
var ErrFetched = errors.New("the repository was fetched meanwhile: run it again")

// errRefsLost says that a store on disk has other refs than its record.
var errRefsLost = errors.New("the refs of the store are not those of its last fetch")

// FromStore calls f with a store's record and refs while nothing changes the store: a
// fetch, which replaces packed-refs and adds packs, waits, so that what f sees is what
// one fetch left. If it is not, the refs are fetched again, and the error is ErrFetched.
func (m *Remote) FromStore(ctx context.Context, s Source, f func(meta.Store, []git.PackedRef) error) error {
	unlock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	store, ok := m.Store(s.History)
	if !ok {
		unlock()
		return ErrFetched
	}
	refs, err := git.Refs(m.StoreDir(s.History.Name()))
	if err == nil && snapshot(refs, store.Head) != store.Snapshot {
		err = errRefsLost
	}
	if err == nil {
		err = f(store, refs)
	}
	unlock()
	if !errors.Is(err, errRefsLost) {
		return err
	}
	m.Log.WithError(err).Error("refs were lost: they are fetched again")
	if _, _, err := m.fetch(ctx, s, Answer{head: store.Head, format: store.Format}, ""); err != nil {
		return err
	}
	return ErrFetched
}

// lockRetry is how often a lock that another process holds is asked for again.
const lockRetry = 50 * time.Millisecond

// Lock takes the lock of the stores: fetches, what reads what one fetch left, and
// removals exclude each other, also between processes. The file lies outside of what is
// renamed and deleted, and is never unlinked, so that nobody waits for a lock on a file
// that is gone.
func (m *Remote) Lock(ctx context.Context) (unlock func(), err error) {
	release, err := m.gate.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	l := flock.New(m.LockFile)
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		release()
		return nil, fmt.Errorf("lock %s: %w", m.Used.Name, err)
	}
	return func() { m.unlock(l, release) }, nil
}

// TryLock is Lock without waiting: if the lock is taken, the error is a *work.BusyError.
func (m *Remote) TryLock() (unlock func(), err error) {
	busy := &work.BusyError{Name: m.Used.Name, Reason: "its lock is taken"}
	release, ok := m.gate.Try()
	if !ok {
		return nil, busy
	}
	l := flock.New(m.LockFile)
	if ok, err := l.TryLock(); err != nil || !ok {
		release()
		if err == nil {
			err = busy
		}
		return nil, err
	}
	return func() { m.unlock(l, release) }, nil
}

func (m *Remote) unlock(l *flock.Flock, release func()) {
	if err := l.Close(); err != nil {
		m.Log.WithError(err).Warn("unlock " + m.Used.Name)
	}
	release()
}
