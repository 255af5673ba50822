package remote

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Config configures a Remote. Its functions belong to the holder, and are called without
// a mutex held.
type Config struct {
	Dir      string         // the directory that has the stores
	LockFile string         // outside of Dir; that of the cold store has .cold at its end
	Used     *work.Resource // fetches and questions are its tasks
	Git      *git.Git
	Trash    *trash.Trash
	Log      *logrus.Entry
	Now      func() time.Time
	// AskTimeout is how long a remote may take to say where a ref stands.
	AskTimeout time.Duration

	// Credential returns the credential of a name for a URL or, without a name, the one
	// whose scope fits best. Nil without an error means none.
	Credential func(ctx context.Context, url, name string) (*git.Auth, error)
	// WithRoom calls f. If the disk is full it makes room and calls f again.
	WithRoom func(ctx context.Context, need disk.Size, f func() error) error
	// MakeDir makes Dir and its contents before a store is made in it, and SyncDir syncs
	// them when the store is complete. RemoveDir removes Dir if nothing was fetched.
	MakeDir   func() error
	SyncDir   func() error
	RemoveDir func() error
	// Save saves the records that Stores returns.
	Save func() error
	// Measure is called with the names of stores that have changed.
	Measure func(stores ...string)
}

// Remote is one remote repository. It is safe for concurrent use.
type Remote struct {
	Config
	Records
	Doing    Activities
	asked    atomic.Int64              // the number of questions that were begun
	answered atomic.Pointer[time.Time] // see Answered
	recent   recent
	locks    storeLocks

	aligning sync.Mutex         // guards what follows; never held over I/O
	aligned  map[string]aligned // by the name of the store
	// settled has the newest question, by the name of the store, whose answer is in the
	// store. Answers to older ones must not move refs back. git's fetches count as
	// questions.
	settled map[string]settled
	// unlisted is set if the first question for all branches and tags failed: the next one,
	// without a store, is for the ref alone.
	unlisted atomic.Bool
}

// New returns a Remote with the records of its stores; nil if nothing was fetched.
func New(c Config, stores map[string]meta.Store) *Remote {
	return &Remote{Config: c, Records: newRecords(c.Now, stores), locks: newStoreLocks(c), aligned: make(map[string]aligned), settled: make(map[string]settled)}
}

// Source names a ref of a repository, and says how to ask for it.
type Source struct {
	URL     volume.URL // as the volume spells it
	Ref     volume.Ref
	History volume.History
	// ColdShallow allows volume.ColdHistory while there is no store of History.
	ColdShallow bool
	Refresh     volume.Refresh
	// Since is what Asked returned at some time, for a caller that must not get the answer
	// to a question from before. Zero allows every question under way.
	Since int64
	// StaleIfError is how old the last answer may be if the remote does not answer now.
	// Zero never allows an old answer.
	StaleIfError time.Duration
	Credential   string // a name, or empty for the one that fits best
	// Pin has the checked addresses of the host of a submodule.
	Pin []netip.Addr
}

// StoreDir returns the directory of a store.
func (m *Remote) StoreDir(name string) string { return filepath.Join(m.Dir, "store", name+".git") }

// at returns the repository as git finds it, with its credentials.
func (m *Remote) at(s Source) git.Remote {
	return git.Remote{URL: s.URL.String(), Pin: s.Pin, Auth: func(ctx context.Context, url string) (*git.Auth, error) { return m.Auth(ctx, s, url) }}
}

// Auth returns the credential for a URL that belongs to the repository.
func (m *Remote) Auth(ctx context.Context, s Source, url string) (*git.Auth, error) {
	return m.Credential(ctx, url, s.Credential)
}

// Ahead returns how many commits the history of commit has that the history of another
// commit, of, lacks, as far as the store of s has them.
func (m *Remote) Ahead(ctx context.Context, s Source, commit, of string) (int, error) {
	return m.Git.Ahead(ctx, m.StoreDir(s.History.Name()), commit, of)
}

// ErrColdEnded says that a full store has taken the place of the cold one, which is not made
// again.
var ErrColdEnded = errors.New("the cold store has ended meanwhile: run it again")

// ErrFetched says that the store was fetched after a resolution and before its use.
var ErrFetched = errors.New("the repository was fetched meanwhile: run it again")

// errRefsLost says that the refs of a store do not match its record.
var errRefsLost = errors.New("the refs of the store are not those of its last fetch")

// FromStore calls f with a store's record and refs while nothing changes the store, so that
// f sees the result of one fetch: other fetches, which replace packed-refs and add packs,
// wait. If the refs do not match the record, it fetches them again and returns ErrFetched.
func (m *Remote) FromStore(ctx context.Context, s Source, f func(meta.Store, []gitref.PackedRef) error) error {
	unlock, err := m.lock(ctx, s.History)
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
	m.Log.WithContext(ctx).WithError(err).Error("refs were lost: they are fetched again")
	extra := ""
	if s.History.Cold {
		extra = s.extra(store.Refs[s.Ref.String()])
	}
	if _, err := m.fetch(ctx, s, Answer{head: store.Head, format: store.Format}, extra); err != nil {
		return err
	}
	return ErrFetched
}
